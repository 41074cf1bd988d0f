"""The contract of a conversation memory as async checks over `MemoryStore`.

The pytest plugin, `soak conformance` and the trials of `soak analyse` are front ends of this package. It knows neither
pytest nor HTTP. A check returns, raises `ContractBrokenError` (what a user would see), or `NotTriedError` (why it
cannot be made here). `workloads` are conversations that every front end holds: the analyses count what is wrong with
them, and a check fails on the first thing that is.
"""
