# /// script
# requires-python = ">=3.11"
# dependencies = ["agno==3.1.10", "sqlalchemy[asyncio]==2.1.8", "psycopg[binary]==3.3.8"]
#
# [tool.soak]
# library = "agno"
# title = "agno Agent with PostgresDb"
# needs = ["postgres"]
# id-in-content = true
# promises = "The runs of a session are stored, and its chat history is what they said."
#
# [tool.soak.releases."2.6.4"]
# dependencies = ["agno==2.6.4", "sqlalchemy[asyncio]==2.0.43", "psycopg[binary]==3.2.10"]
# known = { concurrent-writers = ["lost", "rolled_back"] }
# ///
"""agno: an `Agent` with a `PostgresDb` and a model that answers at once; a message is what one run is asked."""

from __future__ import annotations

from agno.db.postgres import PostgresDb
from soak_agno import Runs
from soak_subject import Surroundings, serve


def open_runs(surroundings: Surroundings) -> Runs:
    runs = Runs(PostgresDb(db_url=surroundings.postgres_by("psycopg")))
    # The first run makes the tables. Of two processes that do so at the same moment one fails, and goes on as if it
    # had not; so nobody is served before they are there.
    for _ in range(2):
        runs.agent.run("Is anybody there?", session_id="before anybody came")
    return runs


if __name__ == "__main__":
    serve(open_runs)
