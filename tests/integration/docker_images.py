"""Docker images for tests, made without a registry: server programs from installed packages, and their libraries."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from soak.testbed import binaries

SHELL = Path("/bin/sh")
POSTGRES_UID = 999
PGDATA = "/var/lib/postgresql/data"

# What the official image does, as far as it matters here.
ENTRYPOINT = f"""#!/bin/sh
set -e
if [ ! -e {PGDATA}/PG_VERSION ]; then
  printf '%s\\n' "$POSTGRES_PASSWORD" > /tmp/password
  initdb -D {PGDATA} -U "$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 --encoding=UTF8 --no-locale
  printf 'host all all all scram-sha-256\\n' >> {PGDATA}/pg_hba.conf
fi
exec "$@" -D {PGDATA} -c listen_addresses='*' -c unix_socket_directories=/tmp
"""


def build(client: Any, version: str) -> str:
    """Make the image of a version, and return its name."""
    if version.startswith("postgres"):
        archive, changes = _postgres(int(version.partition("-")[2]))
    else:
        program = binaries.valkey_server() if version.startswith("valkey") else binaries.redis_server()
        archive, changes = _redis(program)
    # Of this process only: another may make and remove its own at the same time.
    name = f"soak-test-{version}-{os.getpid()}"
    client.api.import_image_from_data(archive, repository=name, tag="latest", changes=changes)
    return f"{name}:latest"


def _redis(program: Path) -> tuple[bytes, list[str]]:
    image = _Image()
    image.add(program, f"usr/local/bin/{program.name}")
    image.add_libraries(program)
    image.folder("data")
    return image.finished(), ["WORKDIR /data", "ENV PATH=/usr/local/bin"]


def _postgres(version: int) -> tuple[bytes, list[str]]:
    image = _Image()
    folder = binaries.postgres_folder(version)
    package = folder.parent
    libraries = package.with_name(f"{package.name}.libs")
    # Its libraries are found by their path relative to the programs.
    for source in (folder / "bin" / "postgres", folder / "bin" / "initdb", folder / "lib", folder / "share", libraries):
        image.add(source, f"opt/{source.relative_to(package.parent)}")
    for program in ("postgres", "initdb"):
        image.add_libraries(folder / "bin" / program)
    image.add(SHELL.resolve(), "bin/sh")
    image.add_libraries(SHELL)
    image.text("etc/passwd", f"root:x:0:0::/:/bin/sh\npostgres:x:{POSTGRES_UID}:{POSTGRES_UID}::/tmp:/bin/sh\n")
    image.text("entrypoint.sh", ENTRYPOINT, mode=0o755)
    image.folder("tmp", mode=0o1777)
    image.folder("dev/shm", mode=0o1777)
    image.folder(PGDATA.lstrip("/"), mode=0o700, owner=POSTGRES_UID)
    path = f"/opt/{(folder / 'bin').relative_to(package.parent)}:/bin"
    return image.finished(), [f"ENV PATH={path}", "USER postgres", 'ENTRYPOINT ["/entrypoint.sh"]']


class _Image:
    """A file system, as an archive."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._archive = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115  closed in finished
        self._names: set[str] = set()

    def add(self, source: Path, name: str) -> None:
        if name not in self._names:
            self._names.add(name)
            self._archive.add(source, name, filter=_readable)

    def add_libraries(self, program: Path) -> None:
        """Add the shared libraries of the system that a program needs, where it looks for them."""
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
        for found in re.findall(r"(/\S+) \(0x", listed):
            if not Path(found).resolve().is_relative_to(Path(binaries.__file__).parents[2]):
                self.add(Path(found).resolve(), str(found).lstrip("/"))

    def text(self, name: str, content: str, mode: int = 0o644) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content.encode()), mode
        self._archive.addfile(member, io.BytesIO(content.encode()))

    def folder(self, name: str, mode: int = 0o755, owner: int = 0) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, mode, owner, owner
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
