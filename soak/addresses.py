"""The addresses that the settings give, by kind of server."""

from __future__ import annotations

from pydantic import SecretStr

from soak.servers import kinds
from soak.settings import SoakSettings
from soak.stores.http_contract import HttpAddress, parse_address

LEDGER = kinds.LEDGER.name


def addresses(settings: SoakSettings) -> dict[str, str]:
    """Return every address that is given; passwords and tokens are in them."""
    given: dict[str, str] = {}
    for kind in (kind for kind in kinds.KINDS.values() if kind.schemes):
        section, _, name = kind.setting.partition(".")
        secret: SecretStr | None = getattr(getattr(settings, section), name)
        if secret is not None:
            given[kind.name] = secret.get_secret_value()
    if kinds.HTTP.name in given:
        given[kinds.HTTP.name] = _with_token(given[kinds.HTTP.name], settings.servers.http_token)
    return given


def verifier_logins(settings: SoakSettings) -> dict[str, str]:
    """Return the logins that the verifier has for itself, by kind of server: user:password."""
    own = {
        kinds.Protocol.REDIS: settings.verifier.redis_login,
        kinds.Protocol.POSTGRES: settings.verifier.postgres_login,
    }
    return {
        kind.name: login.get_secret_value()
        for kind in kinds.UNDER_TEST
        if (login := own.get(kind.protocol)) is not None
    }


def _with_token(address: str, token: SecretStr | None) -> str:
    parsed = parse_address(address)
    return HttpAddress(parsed.base, token.get_secret_value() if token is not None else parsed.token).with_token()
