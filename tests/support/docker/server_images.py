"""Docker images for tests, made without a registry: server programs from installed packages, and their libraries."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soak.servers import binaries, versions

if TYPE_CHECKING:
    from collections.abc import Callable

SHELL = Path("/bin/sh")
TOOLS = ("chmod", "chown", "mkdir", "mv", "rm", "setpriv")
POSTGRES_UID = 999
POSTGRES_PROGRAMS = ("postgres", "initdb", "pg_basebackup", "pg_isready")

# What the official image does, as far as it matters here: it begins as root, and goes on as another user.
ENTRYPOINT = """#!/bin/sh
set -e
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA"
  chmod 700 "$PGDATA"
  chown -R postgres "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --clear-groups -- "$0" "$@"
fi
if [ ! -e "$PGDATA/PG_VERSION" ]; then
  printf '%s\\n' "${POSTGRES_PASSWORD:-none}" > /tmp/password
  initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile=/tmp/password $POSTGRES_INITDB_ARGS
  rm /tmp/password
  if [ -n "$POSTGRES_HOST_AUTH_METHOD" ]; then
    echo "host all all all $POSTGRES_HOST_AUTH_METHOD" >> "$PGDATA/pg_hba.conf"
    [ "$POSTGRES_DB" = postgres ] ||
      echo "create database \\"$POSTGRES_DB\\"" | postgres --single -D "$PGDATA" -j postgres
  fi
fi
exec "$@"
"""


def build(client: Any, version: str) -> str:
    """Make the image of a version, and return its name."""
    if version.startswith("postgres"):
        archive, changes = _postgres(int(version.partition("-")[2]))
    else:
        program = binaries.redis_program(versions.redis_version(version))
        archive, changes = _redis(program)
    # Of this process only: another may make and remove its own at the same time.
    name = f"soak-test-{version}-{os.getpid()}"
    client.api.import_image_from_data(archive, repository=name, tag="latest", changes=changes)
    return f"{name}:latest"


def _redis(program: Path) -> tuple[bytes, list[str]]:
    image = Image()
    image.add(program, f"usr/local/bin/{program.name}")
    image.add_libraries(program)
    # Health checks ask with the client that is named like the server; one speaks to all of them.
    client = binaries.redis_server().with_name("redis-cli")
    image.add(client, f"usr/local/bin/{program.name.replace('-server', '-cli')}")
    image.add_libraries(client)
    image.add(SHELL.resolve(), "bin/sh")
    image.add_libraries(SHELL)
    image.folder("data")
    return image.finished(), ["WORKDIR /data", "ENV PATH=/usr/local/bin:/bin", f'CMD ["{program.name}"]']


def _postgres(version: int) -> tuple[bytes, list[str]]:
    image = Image()
    folder = binaries.postgres_folder(version)
    package = folder.parent
    libraries = package.with_name(f"{package.name}.libs")
    # Its libraries are found by their path relative to the programs.
    programs = [folder / "bin" / program for program in POSTGRES_PROGRAMS]
    for source in (*programs, folder / "lib", folder / "share", libraries):
        image.add(source, f"opt/{source.relative_to(package.parent)}")
    for program in programs:
        image.add_libraries(program)
    for tool in ("sh", "id", *TOOLS):
        path = Path(shutil.which(tool) or SHELL)
        image.add(path.resolve(), f"bin/{tool}")
        image.add_libraries(path)
    image.text("etc/passwd", f"root:x:0:0::/:/bin/sh\npostgres:x:{POSTGRES_UID}:{POSTGRES_UID}::/tmp:/bin/sh\n")
    image.text("etc/group", f"root:x:0:\npostgres:x:{POSTGRES_UID}:\n")
    image.text("entrypoint.sh", ENTRYPOINT, mode=0o755)
    image.folder("tmp", mode=0o1777)
    image.folder("dev/shm", mode=0o1777)
    search_path = f"/opt/{(folder / 'bin').relative_to(package.parent)}:/bin"
    return image.finished(), [
        f"ENV PATH={search_path}",
        "ENV PGDATA=/var/lib/postgresql/data",
        'ENTRYPOINT ["/entrypoint.sh"]',
        'CMD ["postgres"]',
    ]


class Image:
    """A file system, as an archive."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._archive = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115  closed in finished
        self._names: set[str] = set()

    def add(
        self, source: Path, name: str, keep: Callable[[tarfile.TarInfo], tarfile.TarInfo | None] | None = None
    ) -> None:
        if name not in self._names:
            self._names.add(name)
            self._archive.add(source, name, filter=keep or _readable)

    def add_libraries(self, program: Path) -> None:
        """Add the shared libraries of the system that a program needs, where it looks for them."""
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
        for found in re.findall(r"(/\S+) \(0x", listed):
            if not Path(found).resolve().is_relative_to(Path(binaries.__file__).parents[2]):
                self.add(Path(found).resolve(), str(found).lstrip("/"))

    def add_named_libraries(self, *names: str) -> None:
        """Add shared libraries of the system that packages expect to be there."""
        listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
        found = dict(re.findall(r"(\S+) \(libc6,x86-64[^)]*\) => (\S+)", listed))
        for name in names:
            self.add(Path(found[name]).resolve(), found[name].lstrip("/"))

    def link(self, name: str, target: str) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = tarfile.SYMTYPE, target
        self._archive.addfile(member)

    def text(self, name: str, content: str, mode: int = 0o644) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content.encode()), mode
        self._archive.addfile(member, io.BytesIO(content.encode()))

    def folder(self, name: str, mode: int = 0o755) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.mode = tarfile.DIRTYPE, mode
        self._archive.addfile(member)

    def finished(self) -> bytes:
        self._archive.close()
        return self._buffer.getvalue()


def _readable(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.name.endswith((".a", ".h")):
        return None
    member.uid = member.gid = 0
    member.mode |= 0o555 if member.isdir() or member.mode & 0o100 else 0o444
    return member
