"""What MkDocs is taught for this site: pages from the root of the repository, and links to files that are not pages.

README.md is the site's first page; CONTRIBUTING.md, CHANGELOG.md and SECURITY.md are pages, too. On a code host their
links and those of docs/*.md lead to source files. The site has none, so there a link to one becomes its path; a link to
a file that does not exist stops the build.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`(?!\]))", re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie in the root of the repository."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let every link of a page lead to a page of the site, or be the path of a source file."""
    source = next((name for name, made in PAGES.items() if made == page.file.src_uri), f"docs/{page.file.src_uri}")
    parts = _CODE.split(markdown)
    return "".join(part if number % 2 else rewritten(part, source) for number, part in enumerate(parts))


def rewritten(text: str, source: str) -> str:
    def link(found: re.Match[str]) -> str:
        picture, label, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (ROOT / path).exists():
            raise PluginError(f"{source} links to {target}, which does not exist")
        if path in PAGES:
            return f"{picture}[{label}]({PAGES[path]}{anchor})"
        if path.startswith("docs/") and not path.startswith("docs/tools/") and (ROOT / path).is_file():
            here = posixpath.dirname(source.removeprefix("docs/")) if source.startswith("docs/") else ""
            return f"{picture}[{label}]({os.path.relpath(path.removeprefix('docs/'), here or '.')}{anchor})"
        shown = label.strip("`")
        return (
            f"`{path}`" if shown in {path, posixpath.basename(path)} or shown.endswith(path) else f"{label} (`{path}`)"
        )

    return _LINK.sub(link, text)
