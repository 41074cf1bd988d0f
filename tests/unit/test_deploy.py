"""What the files of the deployment name is there: settings, and the files that their page links to."""

from __future__ import annotations

import re

import pytest

from soak.configuration import _annotation
from tests.support.paths import ROOT

NAMING = (
    *("deploy/Dockerfile", "deploy/.env", "deploy/compose.yaml", "deploy/compose.faults.yaml", "docs/deploy.md"),
    *("deploy/systemd/soak.service", "deploy/systemd/soak.env.example", "deploy/github/soak.yml"),
    *("deploy/github/action/action.yml", "deploy/gitlab/soak.yml", "docs/kubernetes.md"),
)
NOT_SETTINGS = {"SOAK_PROMETHEUS_URL"}  # Grafana's


def settings_named(text: str) -> set[str]:
    return set(re.findall(r"\bSOAK_[A-Z0-9_]+", text)) - NOT_SETTINGS


def is_setting(name: str) -> bool:
    return _annotation(tuple(name.removeprefix("SOAK_").lower().split("__"))) is not None


@pytest.mark.parametrize("path", NAMING)
def test_every_setting_that_is_named_is_one(path: str) -> None:
    assert [name for name in settings_named((ROOT / path).read_text()) if not is_setting(name)] == []


def test_a_name_that_is_no_setting_is_seen() -> None:
    assert settings_named("x: ${SOAK_LOAD__USER:-1}") == {"SOAK_LOAD__USER"}
    assert not is_setting("SOAK_LOAD__USER")
    assert is_setting("SOAK_TESTBED__CONTAINERS__POSTGRES_REPLICA")


def test_every_link_of_the_page_leads_to_a_file() -> None:
    page = ROOT / "docs" / "deploy.md"
    links = re.findall(r"\]\((?!http)([^)#]+)", page.read_text())
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []
