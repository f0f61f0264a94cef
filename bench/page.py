"""Pieces of a static HTML page: no script, nothing fetched, readable in light and in dark."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

NUMBER = re.compile(r"-?[\d.,]+(e[+-]?\d+)?")
STYLE = Path(__file__).with_suffix(".css").read_text()


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!doctype html><html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def heading(level: int, text: str) -> str:
    """Return a heading."""
    return f"<h{level}>{escape(text)}</h{level}>"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table; numbers stand to the right, ``met`` and such have colours."""
    first = "".join(f"<th>{escape(text)}</th>" for text in head)
    rows = "".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in body)
    return f"<table><tr>{first}</tr>{rows}</table>"


def _cell(text: str) -> str:
    kinds = {"met": "good", "yes": "good", "MISSED": "bad", "NO": "bad"}
    if text in kinds:
        return f'<td class="{kinds[text]}">{text}</td>'
    kind = ' class="n"' if NUMBER.fullmatch(text) else ""
    return f"<td{kind}>{escape(text)}</td>"


def picture(name: str, text: str) -> str:
    """Return a picture that lies beside the page."""
    return f'<p><img src="{escape(name, quote=True)}" alt="{escape(text, quote=True)}"></p>'


def source(command: str, file: str) -> str:
    """Return the line that says where figures come from."""
    return (
        f'<p class="soft"><code>{escape(command)}</code>, <a href="{escape(file, quote=True)}">{escape(file)}</a></p>'
    )
