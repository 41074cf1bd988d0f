"""JSON from outside or from disk: whatever is wrong with it is one kind of error."""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
"""By type; as many as the program has."""
_preparing = threading.Lock()


@overload
def decode_json(content: bytes | str, type: type[_T]) -> _T: ...


@overload
def decode_json(content: bytes | str, type: Any = Any) -> Any: ...


def decode_json(content: bytes | str, type: Any = Any) -> Any:  # noqa: A002  as msgspec names it
    """Return the value; raises `msgspec.DecodeError` for anything that is not one.

    msgspec alone also raises `UnicodeDecodeError` for bytes that are no UTF-8, `RecursionError` for a deep nesting and
    plain `ValueError`s for absurd numbers: a flipped byte must not become an internal error.
    """
    try:
        return (_decoders.get(type) or decoder_of(type)).decode(content)
    except msgspec.DecodeError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:
        raise msgspec.DecodeError(" ".join(str(error).split()) or error.__class__.__name__) from error


def decoder_of(type: Any) -> msgspec.json.Decoder[Any]:  # noqa: A002
    """Return the decoder of a type, which is safe to use in any thread from then on, with `msgspec.convert` too."""
    # msgspec learns a type when it first meets it. A second thread that meets it half-learned crashes the process.
    with _preparing:
        return _decoders.setdefault(type, msgspec.json.Decoder(type))
