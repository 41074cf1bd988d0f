"""The configuration file of a PostgreSQL that we start, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping

USER = "soak"
DATABASE = "postgres"
OURS = frozenset({"listen_addresses", "port", "unix_socket_directories", "data_directory", "hba_file", "include"})
"""Settings that no option may replace."""

# Durable as in production. In the file, not on the command line, so that a fault may change it by a reload.
_SETTINGS = {
    "max_connections": "200",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_level": "replica",
    "max_wal_senders": "10",
    "wal_keep_size": "'512MB'",
    "hot_standby": "on",
    # By default a replica may take five seconds to notice that its primary is back.
    "wal_retrieve_retry_interval": "'100ms'",
    # Segments in the data folder, not in /dev/shm, where a killed server would leave them behind.
    "dynamic_shared_memory_type": "mmap",
    "logging_collector": "off",
    "timezone": "'UTC'",
}


def postgres_settings(options: Mapping[str, str], place: Mapping[str, str]) -> str:
    """Return the file: durable as in production, what the options say instead, and where the server lives."""
    quoted = {name: _quoted(value) for name, value in {**options, **place}.items()}
    return "".join(f"{name} = {value}\n" for name, value in {**_SETTINGS, **quoted}.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
