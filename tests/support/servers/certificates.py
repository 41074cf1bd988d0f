"""Certificates for servers and clients, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.needs import installed

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Certificates(NamedTuple):
    """A server's and a client's certificate, who signed both, and somebody who signed neither."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    stranger: Path


def make_certificate(folder: Path, subject: str = "localhost") -> Path:
    """Make one that signs itself for this machine, and its key, in one file: a server's, an authority's, a client's."""
    made, key = folder / "certificate.pem", folder / "key.pem"
    names = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    files = ("-keyout", str(key), "-out", str(made))
    command = [installed("openssl"), "req", "-x509", *_KEY, "-subj", f"/CN={subject}", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    made.write_bytes(made.read_bytes() + key.read_bytes())
    return made


def make_certificates(folder: Path) -> Certificates:
    """Make them; the server is 127.0.0.1, the client is called soak."""
    program = installed("openssl")

    def make(name: str, subject: str, *more: str) -> tuple[Path, Path]:
        made, key = folder / f"{name}.pem", folder / f"{name}.key"
        command = [
            program,
            "req",
            "-x509",
            *_KEY,
            "-subj",
            f"/CN={subject}",
            *more,
            "-keyout",
            str(key),
            "-out",
            str(made),
        ]
        subprocess.run(command, check=True, capture_output=True)
        for path in (made, key):
            path.chmod(0o644)  # servers run as another user where we are root
        return made, key

    authority, authority_key = make("authority", "authority")
    stranger, _ = make("stranger", "stranger")
    signed = ("-CA", str(authority), "-CAkey", str(authority_key))
    plain = ("-addext", "basicConstraints=critical,CA:FALSE")
    server, server_key = make("server", "server", *signed, *plain, "-addext", "subjectAltName=IP:127.0.0.1")
    client, client_key = make("client", "soak", *signed, *plain)
    return Certificates(authority, server, server_key, client, client_key, stranger)
