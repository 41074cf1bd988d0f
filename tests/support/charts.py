"""The chart rendered by helm, and its objects held to the schemas of Kubernetes and of the prometheus-operator."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

from tests.support.needs import missing
from tests.support.paths import ROOT

CHART = ROOT / "deploy" / "helm" / "soak"
VALUE_SETS = tuple(sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml")))
VERSIONS = ("1.28", "1.37")
"""The oldest Kubernetes that the chart names, and the newest whose schema there is."""
OPERATOR = json.loads((Path(__file__).parent / "prometheus_operator.schema.json").read_text())
PODS = {"StatefulSet", "Deployment", "Job", "CronJob"}
SECONDS_MAX = 60.0

Object = dict[str, Any]


def tool(name: str) -> str:
    """Return helm or kubectl, as `make kubernetes-tools` installs them, or as they are found; skip without."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        missing(f"{name} is not installed; 'make kubernetes-tools' installs it into .venv")
    return found


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    command = [tool("helm"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)


def template(*words: str) -> subprocess.CompletedProcess[str]:
    return helm("template", "try", str(CHART), "--namespace", "soak", *words)


@functools.cache
def rendered(values: str) -> tuple[Object, ...]:
    """Return what the chart makes of one of its value sets."""
    done = template("--values", str(CHART / "ci" / f"{values}-values.yaml"))
    assert done.returncode == 0, done.stderr
    return objects_of(done.stdout)


def objects_of(text: str) -> tuple[Object, ...]:
    return tuple(one for one in yaml.safe_load_all(text) if one)


def validate(one: Object, version: str) -> None:
    """Hold an object to its schema, in which no unknown field is allowed; raises what the validator raises."""
    if one["apiVersion"].startswith("monitoring.coreos.com/"):
        jsonschema.validate(one, OPERATOR[one["kind"]])
        return
    kubernetes_validate.validate(one, version, strict=True)


def pod_of(one: Object) -> Object:
    """Return the specification of the pods that a workload makes."""
    spec = one["spec"]
    if one["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    found: Object = spec["template"]["spec"]
    return found


def pods(values: str) -> dict[str, Object]:
    return {one["metadata"]["name"]: pod_of(one) for one in rendered(values) if one["kind"] in PODS}


def values_described() -> list[list[str]]:
    """Return of every value its path, its default and its comment, in the order of values.yaml."""
    rows = []
    path: list[str] = []
    comment = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        if line.lstrip().startswith("#"):
            comment = line.strip("# ")
            continue
        found = re.match(r"( *)(\w+):", line)
        if not line.strip():
            comment = ""
        elif found is not None:
            path = [*path[: len(found[1]) // 2], found[2]]
            if comment:
                default = functools.reduce(lambda tree, key: tree[key], path, _defaults())
                rows.append([f"`{'.'.join(path)}`", f"`{json.dumps(default)}`", comment])
                comment = ""
    return rows


@functools.cache
def _defaults() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())
