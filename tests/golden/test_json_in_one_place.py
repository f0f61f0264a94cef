"""JSON is read in one place, which bounds its size and its depth."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READS = {"load", "loads", "raw_decode", "JSONDecoder", "json"}
STRUCTS = {"Decoder", "convert", "decode"}  # of msgspec
PLACE = "worker/penstock/contract/codec.py"
SOURCES = sorted(
    str(path.relative_to(ROOT)) for part in ("worker", "operator", "spark") for path in (ROOT / part).rglob("*.py")
)


def reads_of(source: str) -> list[str]:
    """Name what reads JSON: ``json.loads`` and its like, msgspec, ``.json()`` of an HTTP answer."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in {"json", "orjson", "simplejson"}:
            found += [a.name for a in node.names if a.name in READS]
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("msgspec"):
            found += [a.name for a in node.names]
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        called = node.func.attr
        if (owner == "json" and called in READS) or (called == "json" and owner != "json"):
            found.append(f"{owner}.{called}")
        elif called in STRUCTS and ast.unparse(node.func).startswith("msgspec."):
            found.append(ast.unparse(node.func))
    return found


def test_the_place_reads_it() -> None:
    assert reads_of((ROOT / PLACE).read_text()) == [
        "msgspec.json.Decoder",
        "msgspec.json.Decoder",
        "msgspec.convert",
        "json.loads",
    ]


@pytest.mark.parametrize("path", [p for p in SOURCES if p != PLACE])
def test_nobody_else_reads_it(path: str) -> None:
    assert reads_of((ROOT / path).read_text()) == [], "read it by penstock.contract.codec"


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.loads(a)",
        "from json import loads",
        "answer.json()",
        "msgspec.json.decode(a)",
        "from msgspec.json import decode",
    ],
)
def test_it_is_seen_where_it_is_read(source: str) -> None:
    assert reads_of(source)
