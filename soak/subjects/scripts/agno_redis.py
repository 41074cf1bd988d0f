# /// script
# requires-python = ">=3.11"
# dependencies = ["agno==3.1.10", "redis==8.1.0"]
#
# [tool.soak]
# library = "agno"
# title = "agno Agent with RedisDb"
# needs = ["redis"]
# id-in-content = true
# has-ttl = true
# promises = "The runs of a session are stored, and its chat history is what they said."
#
# [tool.soak.releases."2.6.4"]
# dependencies = ["agno==2.6.4", "redis==6.4.0"]
# known = { concurrent-writers = ["lost", "rolled_back"], growing-prefix = ["lost", "rolled_back"] }
# ///
"""agno: an `Agent` with a `RedisDb` and a model that answers at once; a message is what one run is asked."""

from __future__ import annotations

from agno.db.redis import RedisDb
from soak_agno import Runs
from soak_subject import Surroundings, serve


def open_runs(surroundings: Surroundings) -> Runs:
    return Runs(RedisDb(db_url=surroundings.servers["redis"], expire=surroundings.ttl_seconds))


if __name__ == "__main__":
    serve(open_runs)
