"""The addresses that the settings give, by kind of server."""

from __future__ import annotations

from pydantic import SecretStr

from soak.settings import SoakSettings
from soak.stores.http_client import HttpAddress, parse_address

LEDGER = "ledger"


def addresses(settings: SoakSettings) -> dict[str, str]:
    """Return every address that is given; passwords and tokens are in them."""
    servers = settings.servers
    secrets: dict[str, SecretStr | None] = {
        "redis": servers.redis,
        "postgres": servers.postgres,
        "postgres-replica": servers.postgres_replica,
        "chroma": servers.chroma,
        LEDGER: settings.ledger.url,
    }
    given = {kind: secret.get_secret_value() for kind, secret in secrets.items() if secret is not None}
    if servers.http is not None:
        given["http"] = _with_token(servers.http.get_secret_value(), servers.http_token)
    return given


def _with_token(address: str, token: SecretStr | None) -> str:
    parsed = parse_address(address)
    return HttpAddress(parsed.base, token.get_secret_value() if token is not None else parsed.token).with_token()
