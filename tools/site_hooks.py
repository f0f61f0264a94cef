"""What MkDocs cannot do by itself, called by it while it builds the site (``mkdocs.yml``, hooks).

People read the pages on hosts of code as well, so pages link to files that the site does not have.
The hook turns such a link into a text that names the file. A link to a file that is nowhere is a
warning, and ``--strict`` lets the build fail.
"""

import html
import logging
import os
import re
from pathlib import PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

from tools import links

LOG = logging.getLogger("mkdocs.hooks.penstock")
SOURCES = {page: source for source, page in links.ELSEWHERE.items() if page != "index.md"}


def on_config(config: Any) -> Any:
    """List the decisions, which come and go without a change of mkdocs.yml."""
    records = sorted((links.ROOT / "docs" / "decisions").glob("*.md"))
    config["nav"][-1] = {"Decisions": [f"decisions/{record.name}" for record in records]}
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are kept outside docs/."""
    for page, source in SOURCES.items():
        text = (links.ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let each link lead to a page of the site, or say which file of the repository is meant."""
    here = page.file.src_uri
    source = SOURCES.get(here, f"docs/{here}")

    def changed(found: re.Match[str]) -> str:
        target = found["target"]
        if not target or links.is_address(target) or target.startswith("#"):
            return found.group()
        return found["mark"] + _link(found["text"], links.resolve(target, source), here)

    return links.MARKS.sub(changed, markdown)


def _link(text: str, link: links.Link, here: str) -> str:
    if not link.path or not (links.ROOT / link.path).exists():
        LOG.warning("%s: the link '%s' leads to no file of the repository", here, link.target)
        return text
    page = links.ELSEWHERE.get(link.path)
    if page is None and link.path.startswith("docs/") and (links.ROOT / link.path).is_file():
        page = link.path.removeprefix("docs/")
    if page is None:
        return f'<span class="in-repository" title="{html.escape(link.path)}">{text}</span>'
    to = os.path.relpath(page, PurePosixPath(here).parent)
    return f"[{text}]({to}{'#' if link.anchor else ''}{link.anchor})"
