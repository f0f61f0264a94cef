"""``lookup`` in Python and in a file gives the same graph, and what is wrong is refused by file and line."""

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.asynchronous import Cache
from penstock.contract.graph import Lookup, LookupHow, decode_graph, encode_graph
from penstock.contract.plan import Partitioning
from penstock.graph import CompiledJob
from penstock.graph.describe import describe
from tests.support.compiled_jobs import compiled, loaded, refusal

HERE = Path(__file__).name
URI = "postgresql://reader@db:5432/shop"
FILE = f"""\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: j}}
spec:
  job:
    graph:
      steps:
        - name: rows
          source: {{parquet: {{path: x}}, columns: [{{name: item, type: string}}, {{name: nr, type: int64}}]}}
        - name: prices
          keyBy: [item]
          lookup:
            postgres: {{uri: "{URI}", table: prices, password: "env:PG"}}
            keys: [sku]
            columns: [{{name: price, type: double}}]
            how: left
            capacity: 3
            batch: 50
            cache: {{rows: 1000, ttl: 30s}}
        - {{name: out, sink: {{discard: {{}}}}}}
"""
TABLE = ps.postgres("prices", uri=URI, password="env:PG")
GIVEN: dict[str, Any] = {"on": {"item": "sku"}, "columns": {"price": "double"}}


def looked_up(table: object = TABLE, **options: Any) -> CompiledJob:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"item": "string", "nr": "int64"})
    rows.lookup("prices", table, **GIVEN | options).sink("out", ps.discard())
    return compiled(job)


def test_the_file_and_python_say_the_same(tmp_path: Path) -> None:
    of_file = loaded(tmp_path, FILE)
    of_python = looked_up(how="left", capacity=3, batch=50, cache=ps.cache(1000, ttl="30s"))
    step = of_file.graph.step("prices")
    assert step == of_python.graph.step("prices")
    assert (step.inputs[0].partitioning, step.inputs[0].keys) == (Partitioning.KEY, ("item",))
    declared = step.parameters
    assert isinstance(declared, Lookup)
    assert (declared.on, declared.how, declared.cache) == (("sku",), LookupHow.LEFT, Cache(1000, 30_000_000))
    assert decode_graph(encode_graph(of_file.graph)) == of_file.graph
    assert [c.name for c in of_file.stages[1].nodes[0].outputs["main"]] == ["item", "nr", "price"]
    assert of_file.plan.stages[1].varying == ("prices",), "status lists it: another attempt may find another row"
    assert describe(declared).startswith("left price by sku from postgres")


def test_the_columns_of_the_table_have_the_names_of_the_key_if_nothing_else_is_said(tmp_path: Path) -> None:
    of_file = loaded(tmp_path, FILE.replace("            keys: [sku]\n", ""))
    of_python = looked_up(on="item", how="left", capacity=3, batch=50, cache=ps.cache(1000, ttl="30s"))
    assert of_file.graph.step("prices") == of_python.graph.step("prices")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"on": "itme"}, "did you mean 'item'"),
    ({"on": []}, "write on="),
    ({"columns": {}}, "columns are missing: declare the columns of the table"),
    ({"columns": {"nr": "int64"}}, "two columns are named 'nr'"),
    ({"how": "full"}, "how='full' is not one of inner, left"),
    ({"capacity": 33}, "capacity=33: it must be a whole number from 1 to 32"),
    ({"batch": 0}, "batch=0: it must be a whole number"),
    ({"cache": 5}, r"cache=5: write cache=ps.cache\(...\)"),
    ({"table": object()}, r"object is not a lookup: it lacks connect"),
    ({"table": ps.kafka("t", bootstrap_servers="b")}, "unknown lookup 'kafka'"),
    ({"table": ps.postgres("prices", uri=URI, key_columns="sku")}, "key_columns"),
    ({"table": ps.postgres("prices", uri="postgresql://u:hunter2@db/x")}, "without a password"),
]


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_what_does_not_fit_is_refused_with_file_and_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){HERE}:\d+: step 'prices': .*({text})") as told:
        looked_up(**options)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("capacity: 3", "capacity: 0", "capacity"),
        ("how: left", "how: full", "how"),
        ("keys: [sku]", "keys: [sku, day]", "keyBy has 1 columns and keys 2"),
        ("          keyBy: [item]\n", "", "keyBy"),
        ('password: "env:PG"', "password: hunter2", "never the secret itself"),
        ("postgres: {uri", "postgre: {uri", "postgres"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, text: str) -> None:
    assert "hunter2" not in refusal(tmp_path, FILE, old, new, text)
