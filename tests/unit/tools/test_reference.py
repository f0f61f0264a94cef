"""Pages of reference name every command, option, metric and reason that there is."""

import re
from pathlib import Path

import click
import pytest
from typer.main import get_command

from penstock.cli.app import make_app
from penstock.contract.streamjob_status import REASONS, ConditionType

ROOT = Path(__file__).parents[3]
CLI = get_command(make_app())
METRIC = re.compile(r"\"(penstock_(?:step|engine|checkpoint|operator)_\w*[a-z])\"")
SOURCES = (
    "worker/penstock/metrics/registry.py",
    "operator/penstock_operator/app/main.py",
    "operator/penstock_operator/app/metrics.py",
)


def read(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CLI.commands)  # type: ignore[attr-defined]
def test_each_command_and_option_is_described(name: str) -> None:
    page = read("cli.md")
    command: click.Command = CLI.commands[name]  # type: ignore[attr-defined]
    assert f"`penstock {name}" in page
    options = [o for p in command.params if isinstance(p, click.Option) for o in p.opts if o.startswith("--")]
    assert [o for o in options if f"`{o}" not in page and o != "--help"] == []


def test_each_metric_is_described() -> None:
    page = read("metrics.md")
    found = {name for source in SOURCES for name in METRIC.findall((ROOT / source).read_text())}
    assert len(found) > 25
    assert sorted(name for name in found if f"`{name}`" not in page) == []


@pytest.mark.parametrize("condition", [ConditionType.STALLED, ConditionType.ACCEPTED])
def test_each_reason_has_its_remedy(condition: ConditionType) -> None:
    page = read("troubleshooting.md")
    bad = [reason for reason in REASONS[condition] if reason not in ("NotStalled", "Valid")]
    assert [reason for reason in bad if f"`{reason}`" not in page] == []
