"""`python -m soak.load.locust_start` is Locust, started sooner: the daemon starts its load so.

gevent looks for plugins before and after every module that it patches, and reads what every installed package says of
itself each time. Here all of that is read once.
"""

from __future__ import annotations

from importlib import metadata


def main() -> None:
    look_up, found = metadata.entry_points, metadata.entry_points()
    metadata.entry_points = found.select
    try:
        from locust.main import main as locust  # noqa: PLC0415  its import is what is made faster
    finally:
        metadata.entry_points = look_up
    locust()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
