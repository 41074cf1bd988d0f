"""How each server is started in the official images, or in one like them."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Self

from soak.errors import UsageError
from soak.servers.postgres import DATABASE, USER, postgres_settings
from soak.servers.redis import redis_settings
from soak.servers.versions import ServerRelease, ServerVersion

_ANYWHERE = "0.0.0.0"  # inside the container; the port is published on the loopback address only
_SETTINGS_FOLDER = "/etc/soak"
_HBA = "local all all trust\nhost all all all scram-sha-256\nhost replication all all scram-sha-256\n"
# The copy is moved there only when it is complete. What follows is the image's own way to start.
_COPY_FIRST = (
    'if [ ! -e "$PGDATA/PG_VERSION" ]; then '
    'rm -rf "$PGDATA.new" && pg_basebackup -D "$PGDATA.new" -R -X stream -c fast -d "$SOAK_PRIMARY" '
    '&& mv "$PGDATA.new" "$PGDATA" || exit 1; '
    'fi; exec "$@"'
)


class Recipe(abc.ABC):
    """What a container of one kind of server is made of."""

    port: int
    """Where the server listens inside."""
    mount: str
    """Where its volume is put."""
    stop_signal: str

    def __init__(self, version: ServerVersion, image: str, password: str) -> None:
        self.version = version
        self.image = image
        self.password = password

    def of(self, release: ServerRelease) -> Self:
        """Return the same for another version; raises `UsageError` that says why its data cannot be taken along."""
        del release
        raise UsageError(
            "pg_upgrade needs the programs of both versions, and an image holds those of one; "
            "take servers from packages (testbed.kind = local) to upgrade a PostgreSQL"
        )

    @abc.abstractmethod
    def command(self, usual: list[str]) -> list[str]:
        """Return what is run; `usual` is what the image would run by itself."""

    def entrypoint(self, own: list[str]) -> list[str] | None:
        """Return the entrypoint instead of the image's own; None: the image's own."""
        del own
        return None

    @abc.abstractmethod
    def environment(self) -> dict[str, str]: ...

    @abc.abstractmethod
    def files(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return files by path: settings, and secrets that must not show in the list of processes."""

    @abc.abstractmethod
    def health_check(self, command: list[str]) -> list[str]: ...


class RedisRecipe(Recipe):
    """Redis or Valkey, with its data in `/data` as the official images have it."""

    port = 6379
    mount = "/data"
    stop_signal = "SIGTERM"

    def of(self, release: ServerRelease) -> Self:
        return type(self)(release.version, release.program or release.version.image, self.password)

    def command(self, usual: list[str]) -> list[str]:
        # An image that was given by setting says itself which of the two it is.
        program = usual[0] if usual and usual[0].endswith("-server") else f"{self.version.family}-server"
        return [program, f"{_SETTINGS_FOLDER}/server.conf"]

    def environment(self) -> dict[str, str]:
        return {"REDISCLI_AUTH": self.password}

    def files(self, options: Mapping[str, str]) -> dict[str, str]:
        settings = redis_settings(options, password=self.password, bind=_ANYWHERE, port=self.port, folder=self.mount)
        return {f"{_SETTINGS_FOLDER}/server.conf": settings}

    def health_check(self, command: list[str]) -> list[str]:
        return [command[0].replace("-server", "-cli"), "ping"]


class PostgresRecipe(Recipe):
    """PostgreSQL, with its data where no version of the official image expects any."""

    port = 5432
    mount = "/soak"
    # Fast: disconnects clients, writes a checkpoint. By SIGTERM it would wait for them.
    stop_signal = "SIGINT"

    def command(self, usual: list[str]) -> list[str]:
        del usual
        return ["postgres", "-c", f"config_file={_SETTINGS_FOLDER}/postgresql.conf"]

    def environment(self) -> dict[str, str]:
        return {
            "PGDATA": f"{self.mount}/data",
            "POSTGRES_USER": USER,
            "POSTGRES_PASSWORD": self.password,
            "POSTGRES_DB": DATABASE,
            "POSTGRES_INITDB_ARGS": "--auth-host=scram-sha-256 --encoding=UTF8 --no-locale",
        }

    def files(self, options: Mapping[str, str]) -> dict[str, str]:
        location = {
            "listen_addresses": "*",
            "port": str(self.port),
            "unix_socket_directories": "/tmp",  # noqa: S108  inside the container
            "hba_file": f"{_SETTINGS_FOLDER}/pg_hba.conf",
        }
        return {
            f"{_SETTINGS_FOLDER}/postgresql.conf": postgres_settings(options, location),
            f"{_SETTINGS_FOLDER}/pg_hba.conf": _HBA,
        }

    def health_check(self, command: list[str]) -> list[str]:
        del command
        return ["pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER]


class ReplicaRecipe(PostgresRecipe):
    """A replica: the same image copies the primary over the containers' network, then starts on the copy."""

    def __init__(self, version: ServerVersion, image: str, password: str, *, name: str, primary: str) -> None:
        super().__init__(version, image, password)
        self._name = name
        self._primary = primary

    def entrypoint(self, own: list[str]) -> list[str]:
        return ["sh", "-c", _COPY_FIRST, "sh", *own]

    def environment(self) -> dict[str, str]:
        address = f"host={self._primary} port={self.port} user={USER} sslmode=disable application_name={self._name}"
        return {**super().environment(), "SOAK_PRIMARY": address, "PGPASSWORD": self.password}
