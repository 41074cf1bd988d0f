"""The memory of my_memory.py held to its contract on real servers, with `pytest examples/test_my_memory.py`."""

from my_memory import MyMemory

from soak.pytest_plugin import MemoryContract, SoakServer


class TestMyMemory(MemoryContract):
    store = MyMemory


def test_servers_are_fixtures_for_tests_of_your_own_too(soak_redis: SoakServer, soak_namespace: str) -> None:
    """What begins with the namespace is removed after the test; soak_redis has restart(), kill(), pause() and more."""
    assert soak_redis.url.startswith("redis://")
    assert soak_namespace.startswith("soak_t_")
