"""PromQL for the panels: every selector names the job and the instance that were chosen above."""

from __future__ import annotations

from collections.abc import Iterable

CHOSEN = 'job=~"$job", instance=~"$instance"'
STORE = 'store=~"$store"'
SERVER = 'server=~"$server"'

NO_DATA = -1
"""What a tile that must never be green by mistake shows where there is nothing to show."""


def series(metric: str, *matchers: str) -> str:
    """Select a metric of the soaks that were chosen."""
    return f"{metric}{{{', '.join((CHOSEN, *matchers))}}}"


def setting(name: str) -> str:
    """Select a setting of the run, in seconds."""
    return series("soak_setting_seconds", f'name="{name}"')


def numbered(metric: str, label: str, values: Iterable[str]) -> str:
    """Return for each instance the number of that value of a label for which a metric is 1."""
    chosen = {number: series(metric, f'{label}="{value}"') for number, value in enumerate(values)}
    return " + ".join(f"{number} * max by (instance) ({one})" for number, one in chosen.items())


def rate(metric: str, *matchers: str) -> str:
    return f"rate({series(metric, *matchers)}[$__rate_interval])"


def increase(metric: str, *matchers: str, over: str = "$__rate_interval") -> str:
    return f"increase({series(metric, *matchers)}[{over}])"


def total(by: str, expression: str) -> str:
    """Add up by labels; by nothing: all of it."""
    return f"sum by ({by}) ({expression})"


def mean(histogram: str, by: str, *matchers: str) -> str:
    """Return the mean of what a histogram took in during each interval; nothing where it took in nothing."""
    told = total(by, increase(f"{histogram}_sum", *matchers))
    count = total(by, increase(f"{histogram}_count", *matchers))
    return f"{told} / ({count} > 0)"


def quantile(share: float, histogram: str, by: str, *matchers: str, over: str = "$__rate_interval") -> str:
    buckets = total(f"le, {by}" if by else "le", f"rate({series(f'{histogram}_bucket', *matchers)}[{over}])")
    return f"histogram_quantile({share:g}, {buckets})"


def or_no_data(expression: str) -> str:
    """Answer with a number that is shown in red where nothing is known, instead of with nothing.

    Takes a value for each instance. An instance that was there in the time that is shown, and tells nothing now, gets
    that number; so does everything if there is no instance at all.
    """
    seen = f"max by (instance) (last_over_time({series('soak_build_info')}[$__range]))"
    return f"({expression}) or on (instance) (0 * {seen} + {NO_DATA}) or on () vector({NO_DATA})"


def faults_seen(*matchers: str) -> str:
    """Return 2 for each fault while it is under way, and 1 around one that was over before anybody looked."""
    active = series("soak_fault_active", *matchers)
    under_way = f"max by (server, kind) (max_over_time({active}[$__interval]) or {active})"
    happened = total("server, kind", increase("soak_faults_injected_total", *matchers))
    return f"2 * ({under_way} > 0) or ({happened} > bool 0)"


def faults_in_range(*matchers: str) -> str:
    """Return a series for each fault that happened in the time that is shown."""
    active = f"max_over_time({series('soak_fault_active', *matchers)}[$__range] @ end())"
    happened = f"increase({series('soak_faults_injected_total', *matchers)}[$__range] @ end())"
    return f"(max by (server, kind) ({active}) > 0 or {total('server, kind', happened)} > 0)"
