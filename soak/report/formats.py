"""The forms a report can take, and how reports become files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from soak.errors import SoakError, UsageError
from soak.proc.files import write_whole
from soak.report import html, junit, markdown
from soak.report.run_report import Report
from soak.suggestion import did_you_mean

FILES_MODE = 0o644


def _json(report: Report) -> str:
    return msgspec.json.format(msgspec.json.encode(report.outcome), indent=2).decode() + "\n"


FORMATS: Mapping[str, Callable[[Report], str]] = {
    "json": _json,
    "junit": junit.render,
    "markdown": markdown.render,
    "html": html.render,
}
FILE_NAMES = {"json": "report.json", "junit": "junit.xml", "markdown": "report.md", "html": "report.html"}


def parse_targets(reports: list[str], folder: Path | None) -> dict[Path, str]:
    """Read what was asked for as FORMAT=PATH, and all formats for a folder: which path gets which format."""
    targets = {folder / FILE_NAMES[name]: name for name in FORMATS} if folder is not None else {}
    for text in reports:
        name, _, path = text.partition("=")
        if name not in FORMATS or not path:
            otherwise = f"write FORMAT=PATH, where the format is {', '.join(FORMATS)}"
            raise UsageError(f"--report {text}: {did_you_mean(name, FORMATS, otherwise) if path else otherwise}")
        targets[Path(path)] = name
    return targets


def check_writable(targets: Mapping[Path, str]) -> None:
    """Say before anything is run that a report could not be written."""
    for path in targets:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise UsageError(f"no report can be written to {path} ({error.strerror}); name another place") from None
        if path.is_dir():
            raise UsageError(f"{path} is a folder; name a file for the report, or use --report-dir")


def write_reports(report: Report, targets: Mapping[Path, str]) -> None:
    """Write each report in one step: a reader sees a whole one."""
    for path, name in targets.items():
        text = FORMATS[name](report)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode(), mode=FILES_MODE, is_synced=False)
        except OSError as error:
            raise SoakError(
                f"the report cannot be written to {path} ({error.strerror}); make room and use soak report"
            ) from None
