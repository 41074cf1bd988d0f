"""Texts as vectors, made here and the same everywhere: no model, no download, no chance.

A memory that is searched needs vectors, and what soak asks of it does not depend on how clever they are: equal texts
have equal vectors, different texts have different ones, and texts that share words lie nearer to each other than texts
that share none. So each run of three characters, and each word, adds to a few of the dimensions; a trace of the whole
text keeps apart what would otherwise coincide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import xxhash

DIMENSIONS = 64
GRAM_CHARACTERS = 3
FEATURES_MAX = 2_048
"""Of a longer text only so many count, evenly spread; its trace is of all of it."""
TRACE_WEIGHT = 0.05
"""Enough to tell two texts apart, too little to bring strangers together."""


def embed(text: str) -> list[float]:
    """Return the vector of a text, of length one."""
    values = [0.0] * DIMENSIONS
    for feature in _features(text):
        number = xxhash.xxh3_64_intdigest(feature)
        values[number % DIMENSIONS] += 1.0 if number & 1 << 32 else -1.0
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    trace = xxhash.xxh3_64_intdigest(_bytes(text), seed=1)
    mixed = [
        value / length + TRACE_WEIGHT * (((trace >> (position % 61)) & 7) / 3.5 - 1.0)
        for position, value in enumerate(values)
    ]
    length = math.sqrt(sum(value * value for value in mixed)) or 1.0
    return [value / length for value in mixed]


def _features(text: str) -> Iterator[bytes]:
    words = text.casefold().split()
    lowered = " ".join(words)
    last = max(1, len(lowered) - GRAM_CHARACTERS + 1)
    step = max(1, last // FEATURES_MAX)
    for start in range(0, last, step):
        yield _bytes(lowered[start : start + GRAM_CHARACTERS])
    for word in words[:: max(1, len(words) // FEATURES_MAX)]:
        yield b"word " + _bytes(word)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
