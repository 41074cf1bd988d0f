"""Batches of records: what is written is what is read, and any damage is noticed."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.ledger.reader import is_before
from soak.ledger.records import (
    Attempt,
    BadRecordError,
    Batch,
    ForgetIntent,
    ForgetOutcome,
    Lease,
    Observation,
    Open,
    SeenItem,
    decode_batch,
    encode_batch,
)

TIMES = st.integers(0, 2**53)
BATCHES = st.builds(
    Batch,
    opens=st.lists(st.builds(Open, st.integers(1, 99), st.text(max_size=9), st.just("redis-list")), max_size=3),
    leases=st.lists(st.builds(Lease, st.integers(1, 99), st.integers(0, 9), st.integers(1, 999)), max_size=3),
    attempts=st.lists(
        st.builds(Attempt, st.integers(1, 99), st.integers(0, 9), st.integers(1, 999), st.integers(0, 2), TIMES, TIMES),
        max_size=9,
    ),
    forget_intents=st.lists(st.builds(ForgetIntent, st.integers(1, 99), TIMES), max_size=2),
    forget_outcomes=st.lists(st.builds(ForgetOutcome, st.integers(1, 99), st.integers(0, 2), TIMES, TIMES), max_size=2),
    closes=st.lists(st.integers(1, 99), max_size=3),
    observations=st.lists(
        st.builds(
            Observation,
            st.integers(1, 99), TIMES, TIMES, st.none() | st.integers(1, 99),
            st.lists(st.builds(SeenItem, st.text(max_size=4), st.integers(0, 9), st.integers(1, 99)), max_size=3),
            st.lists(st.tuples(st.integers(0, 9), st.integers(1, 99), TIMES, TIMES), max_size=3),
            st.integers(0, 99), st.just("absent"),
        ),
        max_size=2,
    ),
    suppressed_observations=st.integers(0, 9),
    farewell=st.booleans(),
)  # fmt: skip


@given(BATCHES)
def test_a_batch_comes_back_as_it_was(batch: Batch) -> None:
    blob = encode_batch(batch)
    assert decode_batch(blob, zlib.crc32(blob)) == batch


@given(BATCHES, st.data())
def test_a_change_of_any_byte_is_noticed(batch: Batch, data: st.DataObject) -> None:
    blob = bytearray(encode_batch(batch))
    crc = zlib.crc32(blob)
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadRecordError):
        decode_batch(bytes(blob), crc)


@pytest.mark.parametrize("blob", [b"", b"\xc1", b"\x80", b"\x91\xa1x", b"\x91\x91\x93\x01\x02\x03"])
def test_a_batch_of_another_shape_is_bad_even_with_a_good_checksum(blob: bytes) -> None:
    with pytest.raises(BadRecordError):
        decode_batch(blob, zlib.crc32(blob))


def test_places_in_the_ledger_are_ordered_by_number_not_by_letter() -> None:
    assert is_before("9-0", "10-0")
    assert is_before("10-2", "10-10")
    assert not is_before("10-10", "10-10")
    assert not is_before("11-0", "10-99")
