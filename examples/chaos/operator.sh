#!/bin/sh
# What an operator does by itself, announced: a CloudNativePG cluster promotes another instance.
# CLUSTER and INSTANCE are its names; see announce.sh for SOAK.
set -eu
exec "$(dirname "$0")/announce.sh" postgres failover "CloudNativePG: promote $INSTANCE" sh -c '
  kubectl cnpg promote -n memory "$CLUSTER" "$INSTANCE" &&
  kubectl -n memory wait cluster.postgresql.cnpg.io/"$CLUSTER" --for=condition=Ready --timeout=10m'
