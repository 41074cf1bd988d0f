"""A subject as a service of a testbed: what is started, with what, and in how many processes."""

from __future__ import annotations

from collections.abc import Callable

from soak.servers.web_process import ServiceProgram
from soak.subjects import environment
from soak.subjects.description import Subject
from soak.subjects.process import command_of, quiet_environment


def program_of(subject: Subject, say: Callable[[str], None]) -> ServiceProgram:
    """Return the program that serves a subject; its environment is made at the first start, and told with `say`."""
    return ServiceProgram(
        name=subject.name,
        command=lambda: command_of(subject, environment.interpreter_for(subject, environment.default_folder(), say)),
        needs=tuple(subject.needs),
        processes=subject.processes,
        environment=quiet_environment(),
    )
