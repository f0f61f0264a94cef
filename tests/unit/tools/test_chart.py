"""What the chart takes from elsewhere is current, and what it names exists."""

import json
import re
from pathlib import Path

import pytest
import yaml

from penstock.metrics import registry
from tools.chart import CHART, ROOT, copies

EXISTING = re.compile(r"penstock_[a-z_]+")
# What the exporter adds to the name of a counter.
COUNTED = {f"{name}_total" for name, _, _ in registry.STEP_COUNTERS} | {
    "penstock_engine_deaths_total",
    "penstock_engine_restarts_total",
}


@pytest.mark.parametrize("path", copies(), ids=lambda path: path.name)
def test_copies_are_current(path: Path) -> None:
    assert path.read_text() == copies()[path], "run `python -m tools.chart`"


@pytest.mark.parametrize("file", ["alerts.yaml", "dashboard.json"])
def test_every_metric_that_is_asked_for_exists(file: str) -> None:
    source = (ROOT / "worker" / "penstock" / "metrics" / "registry.py").read_text()
    made = set(EXISTING.findall(source)) | COUNTED
    made |= {f"penstock_checkpoint_{name}" for name in ("epoch", "bytes", "duration_seconds")}
    text = (CHART / "files" / file).read_text()
    assert set(EXISTING.findall(text)) <= made


def test_alerts_say_what_to_do() -> None:
    groups = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}


def test_panels_do_not_lie_on_each_other() -> None:
    panels = json.loads((CHART / "files" / "dashboard.json").read_text())["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_version_is_the_packages() -> None:
    source = (ROOT / "worker" / "penstock" / "__init__.py").read_text()
    version = re.search(r'__version__ = "(.*)"', source)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert version is not None
    assert chart["appVersion"] == version.group(1)
