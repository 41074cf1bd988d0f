"""The flags that are settings: each stands for one key of the tree, so that they can never drift apart."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from soak.configuration import Configuration, read
from soak.errors import UsageError
from soak.servers.kinds import PostgresTopology, RedisTopology
from soak.settings import FaultRule
from soak.suggestion import nearest
from soak.thresholds import read_flags

FAULT_EVERY_DEFAULTS = {"check": "15s"}
"""How often a `--fault` that says neither `every` nor `cron` happens: in a minute more than once."""
FAULT_EVERY_DEFAULT = "2m"
"""The same in every other command."""


class Flag(NamedTuple):
    """A flag, and the setting it stands for."""

    name: str
    key: str
    metavar: str
    help: str
    repeated: bool = False
    convert: Callable[[Any], object] | None = None
    """Makes the value of the setting from the words that were given."""
    constant: str | None = None
    """What the flag means without a value; it takes none then."""
    version_key: str | None = None
    """The setting it stands for where a version is given in place of an address."""
    topology_key: str | None = None
    """The setting it stands for where a topology is given."""
    topologies: frozenset[str] = frozenset()

    @property
    def destination(self) -> str:
        return "setting:" + self.key

    def value_of(self, words: Any) -> object:
        return words if self.convert is None else self.convert(words)

    def key_for(self, value: object) -> str:
        """Return the setting that this value is for: addresses have colons, versions and names of programs none."""
        if self.topology_key is not None and value in self.topologies:
            return self.topology_key
        return self.version_key if self.version_key is not None and ":" not in str(value) else self.key


def fault_rule(text: str) -> dict[str, object]:
    """Read a rule as a flag has it: `FAULT:SERVER[:every=TIME,hold=TIME,…]`, parameters of the fault included."""
    # Only here: most commands need no faults, which bring every kind of server along.
    from soak.faults.catalogue import ALL, current_name  # noqa: PLC0415

    fault, _, rest = text.partition(":")
    target, _, options = rest.partition(":")
    pairs = [option.partition("=") for option in options.split(",") if option]
    if not fault or not target or any(not name or not equals for name, equals, _ in pairs):
        raise UsageError(f"--fault {text}: write FAULT:SERVER, or FAULT:SERVER:every=1m,hold=5s")
    known = ALL[current_name(fault)].parameters() if current_name(fault) in ALL else {}
    rule: dict[str, object] = {"fault": fault, "target": target}
    parameters: dict[str, str] = {}
    for name, _, value in pairs:
        # What both have (jitter) is the fault's: a rule of its own in soak.toml can say both.
        if name in known or nearest(name, [*FaultRule.model_fields, *known]) in known:
            parameters[name] = value
        else:
            rule[name] = value
    if parameters:
        rule["parameters"] = parameters
    return rule


STORE = Flag(
    "--store", "stores.names", "NAME", "store to soak, by name or package.module:Class; may be repeated", repeated=True
)
DATA_DIR = Flag("--data-dir", "data_dir", "FOLDER", "where servers, evidence and logs are kept (default: .soak)")
LOG_LEVEL = Flag("--log-level", "log.level", "LEVEL", "debug, info, warning or error")
LOG_FORMAT = Flag("--log-format", "log.format", "FORMAT", "auto, console or json")
SERVERS = (
    Flag(
        "--redis",
        "servers.redis",
        "URL|VERSION|TOPOLOGY",
        "a Redis that already runs (passwords by SOAK_SERVERS__REDIS), the version to start (6.2, 7.0, 8, valkey-8, "
        "valkey-9), or sentinel (1 + 2 and three sentinels) or cluster (3 + 3)",
        version_key="servers.redis_version",
        topology_key="servers.redis_topology",
        topologies=frozenset(RedisTopology),
    ),
    Flag(
        "--postgres",
        "servers.postgres",
        "URL|VERSION|TOPOLOGY",
        "a PostgreSQL that already runs (likewise SOAK_SERVERS__POSTGRES), the version to start (16, 18), or "
        "sync-standby (1 + 1) or patroni (3, and three etcd)",
        version_key="servers.postgres_version",
        topology_key="servers.postgres_topology",
        topologies=frozenset(PostgresTopology),
    ),
    Flag("--postgres-replica", "servers.postgres_replica", "URL", "a streaming replica of it"),
    Flag(
        "--pgbouncer",
        "servers.pgbouncer",
        "MODE",
        "start a pgbouncer before PostgreSQL, in transaction or session mode",
    ),
    Flag("--chroma", "servers.chroma", "URL", "a Chroma server that already runs"),
    Flag("--sqlite", "servers.sqlite", "FILE", "a SQLite file for --store sqlite; none: one in the data folder"),
    Flag("--url", "servers.http", "URL", "a memory behind HTTP for --store http (token: SOAK_SERVERS__HTTP_TOKEN)"),
    Flag("--ledger", "ledger.url", "URL", "the ledger's own Redis-compatible server"),
)
ALLOW_WEAKER = Flag(
    "--allow-weaker-server",
    "contract_mismatch",
    "",
    "begin although a server as configured cannot keep what is promised",
    constant="allow",
)
HTTP = (
    Flag("--host", "http.host", "ADDRESS", "address to serve /metrics, /status, /healthz on (default: 127.0.0.1)"),
    Flag("--port", "http.port", "PORT", "port to serve them on; 0: any free one"),
)
NAMESPACE = Flag(
    "--namespace", "stores.namespace", "PREFIX", "prefix of everything written (default: made from the run)"
)
SUBJECT = Flag(
    "--subject",
    "testbed.subject",
    "NAME|FILE",
    "memory library to start behind --store http: a name of 'soak analyse --list', or a script",
)
FAULT_EVERY = Flag("--fault-every", "faults.every", "TIME", "how often on each server")
FAULT = Flag(
    "--fault",
    "faults.rules",
    "RULE",
    "a rule of your own: crash:redis:every=1m,hold=5s or latency:redis:delay=500ms; may be repeated",
    repeated=True,
    convert=lambda texts: [fault_rule(text) for text in texts],
)
FAULTS = (
    Flag("--faults", "faults.preset", "PRESET", "faults on a schedule: none, gentle, recovery, failover or chaos"),
    FAULT_EVERY,
    FAULT,
)
THRESHOLD = Flag(
    "--threshold",
    "thresholds",
    "NAME=LIMIT",
    "fail with exit code 6 above it: append_p99=50ms, redis-list.read_p95_in_fault=2s; may be repeated",
    repeated=True,
    convert=read_flags,
)
SOAKING = (
    STORE,
    Flag("--users", "load.users", "N", "simulated participants (default: 50)"),
    Flag("--duration", "duration", "TIME", "end by itself after 90s, 8h, 3d …"),
    Flag("--spawn-rate", "load.spawn_rate", "N", "participants started per second"),
    Flag("--processes", "load.processes", "N", "Locust processes on this machine"),
    Flag("--verifiers", "verifier.shards", "N", "verifiers that share the run (default: 1)"),
    Flag(
        "--verifiers-elsewhere",
        "verifier.shards_elsewhere",
        "N",
        "so many of them are started on other machines, with 'soak verify --shard I/N'",
    ),
    Flag("--browser-users", "load.browser_users", "N", "participants more, that use a chat page in a real Chromium"),
    Flag("--think", "load.think", "TIME", "mean pause between two turns of a participant"),
    Flag("--mix", "load.mix", "NAME", "what is talked about: chat, short, long or hard"),
    Flag("--seed", "seed", "N", "makes texts and choices reproducible"),
    Flag("--ttl", "stores.ttl", "TIME", "time to live for stores that expire sessions"),
    Flag("--timeout", "stores.timeout", "TIME", "limit for every single operation on a store"),
    *FAULTS,
    THRESHOLD,
    SUBJECT,
    Flag("--testbed", "testbed.kind", "KIND", "where servers are started: local (from packages) or docker"),
    NAMESPACE,
    *SERVERS,
    ALLOW_WEAKER,
    DATA_DIR,
    *HTTP,
)
EVERYWHERE = (LOG_LEVEL, LOG_FORMAT)
EVERY_FLAG = tuple(dict.fromkeys((*SOAKING, *EVERYWHERE)))


def add_flags(parser: argparse.ArgumentParser, flags: tuple[Flag, ...]) -> None:
    """Give a command its flags, with --config and --set for all that has no flag."""
    group = parser.add_argument_group(
        "settings", "each is also a key in soak.toml and a SOAK_… variable; see 'soak config'"
    )
    for flag in (*flags, *EVERYWHERE):
        if flag.constant is not None:
            group.add_argument(
                flag.name,
                dest=flag.destination,
                help=flag.help,
                action="store_const",
                const=flag.constant,
                default=argparse.SUPPRESS,
            )
            continue
        group.add_argument(
            flag.name,
            dest=flag.destination,
            metavar=flag.metavar,
            help=flag.help,
            action="append" if flag.repeated else "store",
            default=argparse.SUPPRESS,
        )
    group.add_argument("--config", metavar="FILE", type=Path, help="settings file (default: soak.toml here, if any)")
    group.add_argument(
        "--set",
        dest="assignments",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any setting by its dotted key",
    )


def add_wide(parser: argparse.ArgumentParser) -> None:
    """Give a command that prints tables the flag that leaves them whole."""
    parser.add_argument("--wide", action="store_true", help="print tables whole, wider than the terminal if need be")


def read_configuration(
    arguments: argparse.Namespace,
    *,
    command: str = "run",
    command_defaults: Mapping[str, object] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Configuration:
    """Read the settings as this command line, the environment and soak.toml give them.

    `command` is what begins a run with them: its name stands under "to do it again".
    """
    given = vars(arguments)
    flags: dict[str, object] = {
        flag.key_for(given[flag.destination]): flag.value_of(given[flag.destination])
        for flag in EVERY_FLAG
        if flag.destination in given
    }
    if isinstance(rules := flags.get(FAULT.key), list):
        every = flags.get(FAULT_EVERY.key) or FAULT_EVERY_DEFAULTS.get(command, FAULT_EVERY_DEFAULT)
        flags[FAULT.key] = [_paced(rule, every) for rule in rules]
    configuration = read(
        {**flags, **(overrides or {})},
        assignments=arguments.assignments,
        config=arguments.config,
        command_defaults=command_defaults,
        places=_names(EVERY_FLAG),
    )
    flags_by_key = _names(flag for flag in EVERY_FLAG if flag.constant is None)
    return configuration._replace(flags=flags_by_key, command=command)


def _paced(rule: dict[str, object], every: object) -> dict[str, object]:
    """Say how often a rule happens that does not say so itself."""
    return rule if "every" in rule or "cron" in rule else {"every": every, **rule}


def _names(flags: Iterable[Flag]) -> dict[str, str]:
    return {
        key: flag.name for flag in flags for key in (flag.key, flag.version_key, flag.topology_key) if key is not None
    }
