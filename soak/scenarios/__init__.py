"""Scenarios: a store on servers, under a load and a fault, with an expectation; and one runner for all of them.

- `selftest`: a flawed store and its correct twin, under the flaw's load and fault. Expected: the flaw is found with its
  kind and cause, and the twin is left alone.
- `recovery_matrix`: one store on a server in each configuration, under writers and a fault. Expected: no more is lost
  than the configuration allows.
- `analyses`: a library on a stage of servers, under the workloads of `soak.contract_suite` and disruptions. Expected:
  the strictest contract, as far as the library does not promise less.

Each is a list of `Scenario`s. `runner` runs a list side by side, each scenario in a process of its own (`child`).
"""
