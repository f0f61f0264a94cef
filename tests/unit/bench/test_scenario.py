from pathlib import Path
from typing import Any

import pytest
import yaml

from bench import oracle
from bench.scenario import Scenario, Target, expand, load, names, part, read
from penstock.base.values import replace
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.graph import load_job


def test_lists_in_a_cell_give_every_combination() -> None:
    found = list(expand({"payload": 32, "workers": [1, 2], "batch_rows": [10, 100]}))
    assert len(found) == 4
    assert {"payload": 32, "workers": 2, "batch_rows": 10} in found


def test_variants_alternate_in_turned_order_under_the_same_settings() -> None:
    plain: dict[str, Any] = {"title": "t", "rows": 7, "alternations": 3}
    plain["variants"] = [{"name": "on", "checkpoint": "10s"}, {"name": "off", "checkpoint": "1h"}]
    runs = list(read("s", plain).runs())
    assert [r.name for r in runs] == ["s/on", "s/off", "s/off", "s/on", "s/on", "s/off"]
    assert {(r.name, r.checkpoint) for r in runs} == {("s/on", "10s"), ("s/off", "1h")}
    assert {r.rows for r in runs} == {7}


def test_a_variant_may_have_targets_of_its_own() -> None:
    on = {"name": "on", "targets": [{"name": "cost", "at_most": 1.0}]}
    runs = list(read("s", {"title": "t", "rows": 1, "variants": [{"name": "off"}, on]}).runs())
    assert [one.targets for one in runs] == [(), (Target("cost", at_most=1.0),)]


def test_parts_are_disjoint_and_complete() -> None:
    runs = list(read("s", {"title": "t", "cells": [{"rows": list(range(1, 8))}]}).runs())
    parts = [part(runs, f"{k}/3") for k in (1, 2, 3)]
    assert [r for p in parts for r in p] == runs
    with pytest.raises(SystemExit, match="no such part"):
        part(runs, "4/3")


@pytest.mark.parametrize("table", [{}, {"cells": [{"pay": 1}]}, {"variants": [{"pay": 1}]}])
def test_a_field_that_is_not_known_is_refused(table: dict[str, Any]) -> None:
    plain = {"title": "t", **table} if table else {"title": "t", "pay": 1}
    with pytest.raises(SystemExit, match="unknown field 'pay'"):
        read("s", plain)


def test_a_target_that_was_not_measured_is_missed() -> None:
    low = Target("rows_per_s", at_least=5.0)
    assert low.met({"rows_per_s": 5.0})
    assert not low.met({"rows_per_s": 4.9})
    assert not low.met({})
    assert Target("p99_ms", at_most=30.0).met({"p99_ms": 30.0})


@pytest.mark.parametrize("name", names())
def test_every_run_of_every_scenario_is_a_job_that_compiles(name: str, tmp_path: Path) -> None:
    scenario = load(name)
    assert scenario.title
    kinds = {(one.kind, one.workers): one for one in scenario.runs()}
    for number, one in enumerate(kinds.values()):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(one.job(tmp_path / "report")))
        load_job(file, ConnectorInspector())


def test_the_oracle_adds_up_running_counts_of_all_splits() -> None:
    one = Scenario("s", "t", workers=2, keys=3, payload=4, rows=65_536 + 10)
    wanted = oracle.expected(one)
    assert wanted["rows"] == 2 * (65_536 + 10)
    n = wanted["rows"]
    evenly = 3 * (n // 3) * (n // 3 + 1) // 2
    assert evenly <= wanted["count"] <= evenly * 1.01
    assert oracle.expected(Scenario("s", "t", kind="relay", rows=5)) == {"rows": 5}


def test_the_oracle_of_changing_words_has_both_kinds() -> None:
    one = Scenario("s", "t", workers=2, keys=9, payload=4, rows=100, kind="changed", seconds=2.0)
    one = replace(one, changing_keys=3, changing_rate=50)
    alone = oracle.expected(replace(one, kind="words"))
    both = oracle.expected(one)
    assert both["rows"] == alone["rows"] + 100
    assert both["count"] - alone["count"] >= 3 * 33 * 34 // 2


def test_lost_repeated_and_misrouted_words_are_found() -> None:
    wanted = {"rows": 6, "count": 1 + 2 + 3 + 1 + 2 + 3}
    assert oracle.differences(wanted, dict(wanted)) == []
    assert oracle.differences(wanted, {"rows": 5, "count": 9})
    assert oracle.differences(wanted, {"rows": 6, "count": 1 + 2 + 3 + 4 + 1 + 2})
    assert oracle.differences({"count": 2**64 - 1}, {"count": -1}) == []


def test_a_trial_is_shorter_in_every_cell() -> None:
    long = Scenario("s", "t", rows=100, cells=({"rows": 50, "batch_rows": 1}, {"payload": 7}))
    assert [run.rows for run in long.shorter().runs()] == [5, 10]
