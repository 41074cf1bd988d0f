#!/bin/sh
# Runs a command inside a window that the soak knows of: announce.sh SERVER EXCUSES REASON COMMAND...
#
# The window ends when the command does, however that is, so the command has to wait until the server serves again.
# SOAK is how the soak is reached; for the chart: SOAK="kubectl -n soak exec soak-0 -- soak".
set -eu
soak=${SOAK:-soak}
server=$1 excuses=$2 reason=$3
shift 3
id=$($soak fault begin --server "$server" --excuses "$excuses" --reason "$reason")
trap '$soak fault end "$id"' EXIT
trap 'exit 130' INT TERM
"$@"
