"""What the chart takes from elsewhere is current, and what it names exists."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from penstock.metrics import registry
from penstock_operator.app.metrics import Metrics
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


def operators() -> set[str]:
    """Name what an operator with one stalled job exports, as Prometheus reads it."""
    metrics = Metrics()
    metrics.watch_jobs(lambda: [])
    families = text_string_to_metric_families(metrics.page().decode())
    shown = {sample.name for family in families for sample in family.samples}
    return shown | {"penstock_operator_stalled_job"}


def rules() -> dict[str, Any]:
    groups = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_every_condition_that_needs_action_has_an_alert() -> None:
    found = rules()
    wanted = {
        "PenstockJobStalled": 'penstock_operator_stalled_job{state!="Failed"}',
        "PenstockJobFailed": 'penstock_operator_stalled_job{state="Failed"}',
        "PenstockNoOperator": "absent(penstock_operator_leading == 1)",
        "PenstockReconcilesFail": 'penstock_operator_reconciles_total{outcome="failed"}',
        "PenstockNoCheckpoint": "penstock_checkpoint_interval_seconds",
    }
    for name, words in wanted.items():
        assert words in found[name]["expr"]


def test_no_alert_about_checkpoints_looks_back_over_a_fixed_time() -> None:
    """A job whose interval is an hour commits nothing in any quarter of one, and is well."""
    expr = rules()["PenstockNoCheckpoint"]["expr"]
    assert "[" not in expr
    uncommitted, limit = expr.split(" > ")
    assert "penstock_checkpoint_uncommitted_seconds" in uncommitted
    assert limit.startswith("3 * max by (namespace, job) (penstock_checkpoint_interval_seconds)")


@pytest.mark.parametrize("file", ["alerts.yaml", "dashboard.json"])
def test_every_metric_that_is_asked_for_exists(file: str) -> None:
    source = (ROOT / "worker" / "penstock" / "metrics" / "registry.py").read_text()
    made = set(EXISTING.findall(source)) | COUNTED
    made |= {f"penstock_checkpoint_{name}" for name in ("epoch", "bytes", "duration_seconds")}
    made |= operators()
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
