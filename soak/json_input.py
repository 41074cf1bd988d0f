"""JSON that somebody else wrote, or a disk has kept: whatever is wrong with it is one kind of error."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")


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
        return msgspec.json.decode(content, type=type)
    except msgspec.DecodeError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:
        raise msgspec.DecodeError(" ".join(str(error).split()) or error.__class__.__name__) from error
