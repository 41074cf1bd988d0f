"""Every statement of the pgvector store. `{schema}` is the store's own schema, `{vectors}` that of the extension.

There is no index over the vectors: the rows of one session are found by its name, and the distance to each of them is
computed. That is exact, and for a conversation quick. An approximate index over all sessions would look for the
nearest of everybody's messages first and then leave out those of other sessions, which may be all it has found.

Vectors travel as arrays of numbers, because the client knows no type that an extension adds.
"""

from __future__ import annotations

from soak.stores.embedding import DIMENSIONS

MIGRATIONS = (
    f"""
    -- 1: messages with their vectors. The id only says what came in later: commits overtake each other.
    CREATE TABLE {{schema}}.message (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session bytea NOT NULL,
        run text COLLATE "C" NOT NULL,
        writer integer NOT NULL,
        seq bigint NOT NULL,
        body bytea NOT NULL,
        embedding {{vectors}}.vector({DIMENSIONS}) NOT NULL,
        CONSTRAINT message_name UNIQUE (session, writer, seq, run)
    );
    """,
)
"""Applied in this order, each once, each in a transaction; those that were released are never changed."""

FIND_EXTENSION = """
-- Tell in which schema the extension is, and whether the server has it at all.
SELECT
    (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'),
    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')
"""

MAKE_EXTENSION = """
-- Add the type and its distances to the database; they stay when the store is cleaned up, for others may use them.
CREATE EXTENSION IF NOT EXISTS vector
"""

APPEND = """
-- Put a message and its vector into the table, both or neither. One of that name that is there already stays as it is.
INSERT INTO {schema}.message (session, run, writer, seq, body, embedding)
VALUES ($1, $2, $3, $4, $5, $6::real[]::{vectors}.vector)
ON CONFLICT ON CONSTRAINT message_name DO NOTHING
"""

HISTORY = """
-- Read a whole session, about as it came in.
SELECT body FROM {schema}.message WHERE session = $1 ORDER BY id
"""

HISTORY_LAST = """
-- Read so many messages of a session that came in last.
SELECT body FROM (
    SELECT id, body FROM {schema}.message WHERE session = $1 ORDER BY id DESC LIMIT $2
) AS newest
ORDER BY id
"""

HISTORIES_LAST = """
-- Read what came in last of several sessions: so many messages each, newest first, in the order asked for.
SELECT ARRAY(
    SELECT body FROM {schema}.message WHERE message.session = asked.session ORDER BY id DESC LIMIT asked.last
)
FROM unnest($1::bytea[], $2::integer[]) WITH ORDINALITY AS asked (session, last, place)
ORDER BY place
"""

SEARCH = """
-- Of a session's messages, those nearest to a vector; of equally near ones the newer first.
SELECT body FROM {schema}.message WHERE session = $1
ORDER BY embedding OPERATOR({vectors}.<->) $2::real[]::{vectors}.vector, id DESC
LIMIT $3
"""

FORGET = """
-- Erase a session, messages and vectors at once.
DELETE FROM {schema}.message WHERE session = $1
"""
