"""What a store is held to: what is declared, else what its server gives, else its own; and where that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from soak.checker.contract import Contract, Expiry, Order, Reads
from soak.contracts.guarantees import Guarantees, postgres_guarantees, redis_guarantees
from soak.contracts.mismatch import find_mismatches, refusal_below_floor
from soak.contracts.presets import PRESETS
from soak.daemon.contracts import Settled, check_declared, mismatches, settle_contracts
from soak.errors import UsageError
from soak.settings import ContractSettings
from soak.stores import registry
from soak.stores.protocol import StoreContext, StoreSpec

CONTEXT = StoreContext(servers={}, namespace="t")
EVERYSEC = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory": "0", "role": "primary"}
ALWAYS = {**EVERYSEC, "appendfsync": "always"}
RDB = {**EVERYSEC, "appendonly": "no", "save": "900 1"}
EVICTING = {**EVERYSEC, "maxmemory": "9", "maxmemory-policy": "allkeys-lru"}
BOTH = ["crash", "power_cut"]
EVICTING_EXPIRING = {**EVERYSEC, "maxmemory": "9", "maxmemory-policy": "volatile-lru"}


class Undeclared:
    """A class of the user's that says nothing of what it promises."""

    needs: ClassVar[tuple[str, ...]] = ("redis",)


class Declared(Undeclared):
    """One that does."""

    contract: ClassVar[Contract] = Contract(order=Order.NONE, crash_loss_seconds=0, power_loss_seconds=0.0)


class DeclaredInPart(Undeclared):
    """One that says something, and nothing of power cuts."""

    contract: ClassVar[Contract] = Contract(order=Order.NONE, crash_loss_seconds=0.0)


class DeclaredByContext(Undeclared):
    """One whose promise depends on the settings, and says nothing of durability."""

    @classmethod
    def contract_for(cls, _context: StoreContext) -> Contract:
        return Contract(ttl_seconds=60.0)


class Both:
    """One that keeps things in two places."""

    needs: ClassVar[tuple[str, ...]] = ("redis", "postgres")


def spec_of(factory: type) -> StoreSpec:
    return StoreSpec(name="mine:Store", factory=factory, needs=factory.needs, description="")  # type: ignore[attr-defined]


def settle(spec: StoreSpec, clauses: dict[str, object], given: Guarantees | None) -> Settled:
    known = {} if given is None else {given.server: given}
    (settled,) = settle_contracts([spec], CONTEXT, ContractSettings(**{spec.name: clauses}), known)
    return settled


def raised(settled: Settled) -> dict[str, float | None]:
    return {clause: loss.seconds for clause, loss in settled.raised.items()}


def losses(settled: Settled) -> tuple[float | None, float | None]:
    return settled.contract.crash_loss_seconds, settled.contract.power_loss_seconds


def test_a_store_of_ours_is_held_to_what_its_server_gives() -> None:
    settled = settle(registry.find("redis-list"), {}, redis_guarantees(EVERYSEC))
    assert (losses(settled), settled.origin, settled.raised) == ((2.0, 2.0), "derived from redis", {})
    settled = settle(registry.find("postgres"), {}, postgres_guarantees({"synchronous_commit": "off", "fsync": "on"}))
    assert (losses(settled), settled.origin) == ((1.0, 1.0), "derived from postgres")


def test_a_stronger_server_is_held_to_more_than_the_store_alone() -> None:
    assert losses(settle(registry.find("redis-list"), {}, redis_guarantees(ALWAYS))) == (0.0, 0.0)


def test_what_the_server_does_not_tell_stays_the_stores_own() -> None:
    settled = settle(registry.find("redis-list"), {}, redis_guarantees({}))
    assert (losses(settled), settled.origin, settled.is_unchecked) == ((2.0, 2.0), "the store's own", True)
    settled = settle(registry.find("redis-list"), {}, None)
    assert (losses(settled), settled.origin, settled.is_unchecked) == ((2.0, 2.0), "the store's own", True)
    half = settle(registry.find("redis-list"), {}, redis_guarantees({"appendonly": "yes"}))
    assert (losses(half), half.is_unchecked) == ((2.0, 2.0), True)


def test_declared_clauses_stand_and_the_others_are_derived() -> None:
    settled = settle(registry.find("redis-list"), {"crash_loss_seconds": "5s"}, redis_guarantees(RDB))
    assert losses(settled) == (5.0, 2.0)
    assert settled.origin == "declared: crash_loss_seconds, derived from redis, raised to contract.floor"
    settled = settle(registry.find("redis-list"), {"crash_loss_seconds": 1, "power_loss_seconds": 1}, None)
    assert settled.origin == "declared"


def test_a_preset_stands_for_all_of_durability_and_single_clauses_override_it() -> None:
    spec = registry.find("redis-list")
    settled = settle(spec, {"preset": "redis-everysec"}, redis_guarantees(RDB))
    assert (losses(settled), settled.origin) == ((2.0, 2.0), "preset redis-everysec")
    settled = settle(spec, {"power_loss_seconds": "none", "preset": "redis-everysec"}, redis_guarantees(RDB))
    assert (losses(settled), settled.origin) == ((2.0, None), "preset redis-everysec, declared: power_loss_seconds")
    cache = settle(spec, {"preset": "cache"}, redis_guarantees(EVICTING)).contract
    assert (cache.crash_loss_seconds, cache.eviction_allowed, cache.order) == (None, True, Order.REALTIME)


def test_a_class_that_declares_a_contract_is_taken_at_its_word() -> None:
    settled = settle(spec_of(Declared), {}, redis_guarantees(EVERYSEC))
    assert (losses(settled), settled.origin) == ((0.0, 0.0), "the store's own")
    assert [one.clause for one in mismatches([settled], {"redis": redis_guarantees(EVERYSEC)})] == [
        "crash",
        "power_cut",
    ]


def test_what_a_class_leaves_out_of_its_contract_is_derived_as_usual() -> None:
    everysec = redis_guarantees(EVERYSEC)
    settled = settle(spec_of(DeclaredInPart), {}, everysec)
    assert (losses(settled), settled.contract.order) == ((0.0, 2.0), Order.NONE)
    assert settled.origin == "derived from redis"
    settled = settle(spec_of(DeclaredByContext), {}, everysec)
    assert (losses(settled), settled.contract.ttl_seconds) == ((2.0, 2.0), 60.0)
    assert losses(settle(spec_of(DeclaredInPart), {}, None)) == (0.0, 0.0)


def test_a_choice_may_be_written_as_text() -> None:
    text: Any = "none"
    contract = Contract(order=text, reads="eventual", expiry="absolute")  # type: ignore[arg-type]
    assert (contract.order, contract.reads, contract.expiry) == (Order.NONE, Reads.EVENTUAL, Expiry.ABSOLUTE)
    assert contract.clauses()["order"] == "none"


@pytest.mark.parametrize(
    ("clauses", "words"),
    [
        ({"order": "nonee"}, "order = 'nonee' is no choice of a contract; choose from realtime, per_writer, none"),
        ({"duplicates": 5}, "duplicates = 5 is no choice of a contract"),
        ({"crash_loss_seconds": "2s"}, "crash_loss_seconds = '2s' is not a number"),
    ],
)
def test_a_wrong_clause_in_a_class_is_one_line(
    clauses: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=words):
        Contract(**clauses)
    source = f"from soak.stores import Contract\n\nclass Mine:\n    contract = Contract(**{clauses!r})\n"
    name = f"mine_{abs(hash(words))}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError) as why:
        registry.find(f"{name}:Mine")
    assert words in str(why.value)
    assert "\n" not in str(why.value)


def test_a_class_that_declares_none_is_held_to_what_its_only_server_gives() -> None:
    settled = settle(spec_of(Undeclared), {}, redis_guarantees(EVERYSEC))
    assert (losses(settled), settled.origin) == ((2.0, 2.0), "derived from redis")


def test_with_two_servers_nobody_knows_which_one_keeps_the_data() -> None:
    settled = settle(spec_of(Both), {}, redis_guarantees(EVERYSEC))
    assert (losses(settled), settled.server) == ((0.0, 0.0), None)
    assert mismatches([settled], {"redis": redis_guarantees(EVERYSEC)}) == []


@pytest.mark.parametrize(
    ("name", "crash", "failover"),
    [
        ("sentinel-async", 2.0, 2.0),
        ("sentinel-min-replicas", 2.0, 2.0),
        ("cluster", 2.0, 2.0),
        ("elasticache-async", 10.0, 10.0),
        ("elasticache-sync", 0.0, 0.0),
        ("memorydb", 0.0, 0.0),
        ("redis-always", 0.0, 0.0),
        ("cache", None, None),
    ],
)
def test_presets_say_what_a_failover_may_take(name: str, crash: float | None, failover: float | None) -> None:
    # Managed services say nothing of how they keep their data: what is declared stands.
    contract = settle(registry.find("redis-list"), {"preset": name}, redis_guarantees({"role": "primary"})).contract
    assert (contract.crash_loss_seconds, contract.failover_loss_seconds) == (crash, failover)
    assert find_mismatches("redis-list", contract, redis_guarantees({"role": "primary"})) == []


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_a_contract_of_its_own(name: str) -> None:
    settled = settle(registry.find("redis-list"), {"preset": name}, None)
    preset = PRESETS[name]
    assert losses(settled) == (preset.crash_loss_seconds, preset.power_loss_seconds)
    check_declared({"redis-list": {"preset": name}}, ["redis-list"], [])


@pytest.mark.parametrize(
    ("preset", "configuration", "broken"),
    [
        ("redis-always", ALWAYS, []),
        ("redis-always", EVERYSEC, ["crash", "power_cut"]),
        ("redis-everysec", ALWAYS, []),
        ("redis-everysec", EVERYSEC, []),
        ("redis-everysec", RDB, ["crash", "power_cut"]),
        ("redis-everysec", {**EVERYSEC, "appendfsync": "no"}, ["power_cut"]),
        ("redis-everysec", EVICTING, ["eviction"]),
        ("redis-everysec", {**EVERYSEC, "role": "replica"}, ["writes"]),
        ("redis-rdb", RDB, []),
        ("redis-rdb", EVERYSEC, []),
        ("redis-rdb", {**RDB, "save": ""}, ["crash", "power_cut"]),
        ("redis-rdb", {**RDB, "save": "86400 1"}, ["crash", "power_cut"]),
        ("cache", {**RDB, "save": ""}, []),
        ("cache", EVICTING, []),
    ],
)
def test_a_preset_fits_the_server_it_is_made_for(preset: str, configuration: dict[str, str], broken: list[str]) -> None:
    given = redis_guarantees(configuration)
    settled = settle(registry.find("redis-list"), {"preset": preset}, given)
    assert [one.clause for one in mismatches([settled], {"redis": given})] == broken


@pytest.mark.parametrize(
    ("preset", "configuration", "broken"),
    [
        ("postgres-sync", {"synchronous_commit": "on", "fsync": "on"}, []),
        ("postgres-sync", {"synchronous_commit": "off", "fsync": "on"}, ["crash", "power_cut"]),
        ("postgres-sync", {"synchronous_commit": "on", "fsync": "off"}, ["power_cut"]),
        ("postgres-async", {"synchronous_commit": "off", "fsync": "on", "wal_writer_delay": "200ms"}, []),
        ("postgres-async", {"synchronous_commit": "off", "fsync": "on", "wal_writer_delay": "1s"}, BOTH),
    ],
)
def test_so_does_one_for_postgres(preset: str, configuration: dict[str, str], broken: list[str]) -> None:
    given = postgres_guarantees(configuration)
    settled = settle(registry.find("postgres"), {"preset": preset}, given)
    assert [one.clause for one in mismatches([settled], {"postgres": given})] == broken


GROUP = {**EVERYSEC, "topology": "sentinel"}
STANDBYS = {"synchronous_commit": "on", "fsync": "on", "topology": "several hosts", "synchronous_standby_names": ""}
WAITING = {**STANDBYS, "synchronous_standby_names": "pg-2"}


@pytest.mark.parametrize(
    ("store", "preset", "configuration", "broken"),
    [
        ("postgres", "patroni-sync", STANDBYS, ["failover"]),
        ("postgres", "patroni-sync", {**WAITING, "synchronous_commit": "local"}, ["failover"]),
        ("postgres", "patroni-sync", WAITING, []),
        ("postgres", "patroni-async", STANDBYS, []),
        ("postgres", "sync-standby", STANDBYS, ["failover"]),
        ("redis-list", "sentinel-async", GROUP, []),
        ("redis-list", "sentinel-min-replicas", GROUP, []),
        ("redis-list", "memorydb", {**GROUP, "appendfsync": "always"}, ["failover"]),
    ],
)
def test_a_preset_that_promises_more_in_a_failover_than_the_group_gives_does_not_fit(
    store: str, preset: str, configuration: dict[str, str], broken: list[str]
) -> None:
    given = (postgres_guarantees if store == "postgres" else redis_guarantees)(configuration)
    settled = settle(registry.find(store), {"preset": preset}, given)
    found = mismatches([settled], {given.server: given})
    assert [one.clause for one in found] == broken
    assert all("in a failover" in one.line and "declare contract." in one.line for one in found)
    assert mismatches([settled], {given.server: given}, waits=True) == (found if store == "postgres" else [])


def test_a_class_that_names_a_crash_and_no_failover_is_held_to_what_its_group_gives_in_one() -> None:
    settled = settle(spec_of(Declared), {}, redis_guarantees({**GROUP, "appendfsync": "always"}))
    assert (losses(settled), settled.contract.failover_loss_seconds) == ((0.0, 0.0), 2.0)


def test_what_is_derived_always_fits_except_eviction_which_nobody_asked_for() -> None:
    for configuration in (EVERYSEC, ALWAYS):
        given = redis_guarantees(configuration)
        assert mismatches([settle(registry.find("redis-list"), {}, given)], {"redis": given}) == []
    given = redis_guarantees(EVICTING)
    (found,) = mismatches([settle(registry.find("redis-list"), {}, given)], {"redis": given})
    assert found.clause == "eviction"


def test_a_volatile_policy_breaks_only_the_promise_of_a_store_with_a_time_to_live() -> None:
    given = redis_guarantees(EVICTING_EXPIRING)
    settled = settle_contracts(
        [registry.find("redis-list"), registry.find("redis-hash")], CONTEXT, ContractSettings(), {}
    )
    assert [one.store for one in mismatches(settled, {"redis": given})] == ["redis-hash"]


def test_a_mismatch_says_what_is_promised_what_is_given_and_what_to_do() -> None:
    (crash, power) = find_mismatches("redis-list", Contract(), redis_guarantees(EVERYSEC))
    assert crash.line == (
        "redis-list promises nothing lost after a crash, "
        "but redis as configured gives: at most 2s lost (AOF everysec); "
        'set appendonly yes and appendfsync always, or declare contract.redis-list.crash_loss_seconds = "2s", '
        "or go on all the same with --allow-weaker-server"
    )
    assert 'contract.redis-list.power_loss_seconds = "2s"' in power.line
    weak = postgres_guarantees({"synchronous_commit": "on", "fsync": "off"})
    (power,) = find_mismatches("my.memory:Store", Contract(), weak)
    assert "set fsync on" in power.line
    assert 'contract."my.memory:Store".power_loss_seconds = "none"' in power.line
    (crash, _) = find_mismatches(
        "redis-list", Contract(crash_loss_seconds=3, power_loss_seconds=3), redis_guarantees(RDB)
    )
    assert "set appendonly yes and appendfsync everysec" in crash.line


def test_an_unknown_preset_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"no such preset, did you mean redis-everysec\?; there are redis-everysec, "):
        check_declared({"redis-list": {"preset": "redis-everysecond"}}, ["redis-list"], [])
    with pytest.raises(UsageError, match=r"contract\.redis-list\.preset = 3: no such preset; there are"):
        check_declared({"redis-list": {"preset": 3}}, ["redis-list"], [])


def service_spec(contract: Contract, *clauses: str) -> StoreSpec:
    """Return the store http before a service that rests on Redis and declares these clauses."""
    return msgspec.structs.replace(
        registry.find("http"), needs=("http", "redis"), declared=contract, declared_clauses=clauses
    )


def test_a_service_that_is_started_is_held_to_what_it_declares_and_else_to_what_its_server_gives() -> None:
    everysec = redis_guarantees(EVERYSEC)
    silent = settle(service_spec(Contract(order=Order.NONE), "order"), {}, everysec)
    assert losses(silent) == (2.0, 2.0)
    assert silent.contract.order is Order.NONE
    assert silent.is_derived
    strict = settle(service_spec(Contract(), "crash_loss_seconds"), {}, everysec)
    assert losses(strict) == (0.0, 2.0)
    assert not strict.is_derived, "what it has declared itself holds for its own death, too"
    assert "declared by the service" in strict.origin
    assert losses(settle(service_spec(Contract()), {"crash_loss_seconds": "5s"}, everysec)) == (5.0, 2.0)


NOTHING_KEPT = {**RDB, "save": ""}
UNSYNCED = {**EVERYSEC, "appendfsync": "no"}


@pytest.mark.parametrize(
    ("configuration", "below"),
    [
        (NOTHING_KEPT, {"crash_loss_seconds": None, "power_loss_seconds": None}),
        (RDB, {"crash_loss_seconds": 1000.0, "power_loss_seconds": 1000.0}),
        (UNSYNCED, {"power_loss_seconds": None}),
        (EVERYSEC, {}),
        (ALWAYS, {}),
    ],
)
def test_a_derived_promise_goes_no_lower_than_the_floor(
    configuration: dict[str, str], below: dict[str, float | None]
) -> None:
    settled = settle(registry.find("redis-list"), {}, redis_guarantees(configuration))
    assert raised(settled) == below
    assert all(seconds is not None and seconds <= 2.0 for seconds in losses(settled))
    assert settled.contract.failover_loss_seconds == settled.contract.crash_loss_seconds


def test_the_floor_is_a_setting_and_holds_for_postgres_too() -> None:
    slow = postgres_guarantees({"synchronous_commit": "off", "fsync": "on", "wal_writer_delay": "10s"})
    (settled,) = settle_contracts([registry.find("postgres")], CONTEXT, ContractSettings(), {"postgres": slow})
    assert (losses(settled), raised(settled)["crash_loss_seconds"]) == ((2.0, 2.0), 30.4)
    (settled,) = settle_contracts([registry.find("postgres")], CONTEXT, ContractSettings(floor=60), {"postgres": slow})
    assert (losses(settled), settled.raised) == ((30.4, 30.4), {})
    (settled,) = settle_contracts(
        [registry.find("redis-list")], CONTEXT, ContractSettings(floor=0), {"redis": redis_guarantees(EVERYSEC)}
    )
    assert losses(settled) == (0.0, 0.0)


@pytest.mark.parametrize("preset", ["cache", "redis-rdb"])
def test_what_is_declared_may_be_weaker_than_the_floor(preset: str) -> None:
    settled = settle(registry.find("redis-list"), {"preset": preset}, redis_guarantees(RDB))
    assert (settled.raised, settled.contract.crash_loss_seconds) == ({}, PRESETS[preset].crash_loss_seconds)


@pytest.mark.parametrize(
    ("configuration", "lost", "declare"),
    [
        (
            NOTHING_KEPT,
            "after a crash or a power cut: anything may be lost (neither AOF nor save)",
            "--set contract.redis-list.preset=cache",
        ),
        (
            RDB,
            "after a crash or a power cut: at most 1000s lost (save 900 1 without AOF, all since the last save)",
            "--set contract.redis-list.preset=redis-rdb",
        ),
        (
            UNSYNCED,
            "after a power cut: anything may be lost (AOF without sync)",
            "--set contract.redis-list.power_loss_seconds=none",
        ),
    ],
)
def test_a_server_below_the_floor_is_refused_with_three_ways_on(
    configuration: dict[str, str], lost: str, declare: str
) -> None:
    given = redis_guarantees(configuration)
    settled = settle(registry.find("redis-list"), {}, given)
    told = refusal_below_floor("redis-list", settled.raised, given, 2.0).splitlines()
    assert told == [
        f"redis as configured, {lost}; redis-list is held to a tail of 2s at least (contract.floor)",
        "  fix redis: set appendonly yes and appendfsync everysec",
        f"  declare the weaker promise: {declare}",
        "  hold redis-list to a tail of 2s all the same: --allow-weaker-server",
    ]


def test_a_store_with_a_long_name_can_be_copied_from_the_refusal_into_a_shell() -> None:
    weak = postgres_guarantees({"synchronous_commit": "on", "fsync": "off"})
    told = refusal_below_floor("my.memory:Store", {"power_loss_seconds": weak.power}, weak, 2.0)
    assert "fix postgres: set fsync on" in told
    assert """--set 'contract."my.memory:Store".power_loss_seconds=none'""" in told
