"""Every statement of the PostgreSQL stores. `{schema}` is the store's own schema, quoted.

The order of a session is a position that the database assigns under the lock of the session's row, held until
commit: positions become visible in their own order, so no reader sees a later message without the earlier one.
A serial would not do: it is assigned before the commit, and commits overtake each other.

Names and messages are kept as bytes: a `text` refuses NUL and depends on the database's encoding.
"""

from __future__ import annotations

MIGRATIONS = (
    """
    -- 1: sessions with the number of positions given out, and their messages.
    CREATE TABLE {schema}.conversation (
        session bytea PRIMARY KEY,
        positions bigint NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE {schema}.message (
        session bytea NOT NULL,
        position bigint NOT NULL,
        run text COLLATE "C" NOT NULL,
        writer integer NOT NULL,
        seq bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (session, position),
        CONSTRAINT message_name UNIQUE (session, writer, seq, run)
    );
    """,
)
"""Applied in this order, each once, each in a transaction; those that were released are never changed."""

TAKE_MIGRATION_LOCK = """
-- Let one process at a time create, migrate or drop the schema; released at the end of the transaction.
SELECT pg_advisory_xact_lock($1)
"""

FIND_FOREIGN_TABLE = """
-- Name a table of somebody else in a schema that we did not make.
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND NOT EXISTS (
    SELECT FROM pg_class own WHERE own.relnamespace = n.oid AND own.relname = 'soak_migration'
  )
LIMIT 1
"""

CREATE_SCHEMA = """
-- Make the schema, and in it the list of migrations that were applied.
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.soak_migration (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""

READ_VERSION = """
-- Tell the last migration that was applied.
SELECT coalesce(max(version), 0) FROM {schema}.soak_migration
"""

HAS_VERSION_TABLE = """
-- Tell whether the schema is there yet: a replica gets it later than the primary.
SELECT to_regclass($1) IS NOT NULL
"""

RECORD_VERSION = """
-- Remember that a migration was applied.
INSERT INTO {schema}.soak_migration (version) VALUES ($1)
"""

APPEND = """
-- Put a message at the next position of its session. One of that name that is there already stays as it is.
WITH next AS (
    INSERT INTO {schema}.conversation AS known (session, positions) VALUES ($1, 1)
    ON CONFLICT (session) DO UPDATE SET positions = known.positions + 1
    RETURNING positions
)
INSERT INTO {schema}.message (session, position, run, writer, seq, body)
SELECT $1, positions, $2, $3, $4, $5 FROM next
ON CONFLICT ON CONSTRAINT message_name DO NOTHING
"""

HISTORY = """
-- Read a whole session in order.
SELECT body FROM {schema}.message WHERE session = $1 ORDER BY position
"""

HISTORY_LAST = """
-- Read the last so many messages of a session, in order, as of one moment.
SELECT body FROM (
    SELECT position, body FROM {schema}.message WHERE session = $1 ORDER BY position DESC LIMIT $2
) AS newest
ORDER BY position
"""

HISTORIES_LAST = """
-- Read the last messages of several sessions, as of one moment: so many each, newest first, in the order asked for.
SELECT ARRAY(
    SELECT body FROM {schema}.message
    WHERE message.session = asked.session ORDER BY position DESC LIMIT asked.last
)
FROM unnest($1::bytea[], $2::integer[]) WITH ORDINALITY AS asked (session, last, place)
ORDER BY place
"""

FORGET_CONVERSATION = """
-- Lock and erase the session's row. Appends under way are waited for, later ones start over.
DELETE FROM {schema}.conversation WHERE session = $1
"""

FORGET_MESSAGES = """
-- Erase the messages. A statement of its own, so that it sees those committed while the first one waited.
DELETE FROM {schema}.message WHERE session = $1
"""

DROP_SCHEMA = """
-- Remove the store's own schema with everything in it.
DROP SCHEMA IF EXISTS {schema} CASCADE
"""
