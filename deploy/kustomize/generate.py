"""Write the kustomize base from the chart, so that there is one text of both: `generate.py [--check]`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CHART = HERE.parent / "helm" / "soak"
BASE = HERE / "base" / "soak.yaml"
HEADER = "# Generated from deploy/helm/soak by `make kustomize`. Change the chart, or an overlay, not this file.\n"
HELMS_OWN = ("helm.sh/chart:", "app.kubernetes.io/managed-by:", "# Source:")


def rendered() -> str:
    """Return what the chart makes of the values, without what only helm itself reads."""
    helm = shutil.which("helm")
    if helm is None:
        raise SystemExit("helm is not installed; 'make kubernetes-tools' installs it into .venv")
    command = [helm, "template", "soak", str(CHART), "--values", str(HERE / "values.yaml"), "--namespace", "soak"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip().splitlines()[-1])
    kept = [line for line in done.stdout.splitlines() if not line.strip().startswith(HELMS_OWN)]
    return HEADER + "\n".join(kept) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        BASE.write_text(rendered())
    elif BASE.read_text() != rendered():
        raise SystemExit(f"{BASE} is not what the chart makes; run 'make kustomize'")
