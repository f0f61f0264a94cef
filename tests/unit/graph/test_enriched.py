"""``enrich`` in Python and in a file gives the same graph, and what is wrong is refused by file and line."""

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.asynchronous import Cache, OnFailure, ResultOrder, Retries
from penstock.contract.graph import Enrich, decode_graph, encode_graph
from penstock.graph import CompiledJob
from penstock.graph.describe import describe
from tests.support.compiled_jobs import compiled, loaded, refusal

COLUMNS = {"who": "string", "nr": "int64", "at": "timestamp[us]"}
HERE = Path(__file__).name


@ps.record
class Asked:
    who: str


@ps.record
class Wrong:
    whom: str


@ps.record
class City:
    city: str


async def typed(r: Asked) -> City: ...  # type: ignore[empty-body]
async def of_wrong(r: Wrong) -> City: ...  # type: ignore[empty-body]
async def plain(row: Any) -> Any: ...
def blocking(row: Any) -> Any: ...


class Remote:
    async def __call__(self, row: Any) -> Any: ...


FILE = f"""\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: j}}
spec:
  job:
    graph:
      steps:
        - name: rows
          source:
            parquet: {{path: x}}
            eventTime: {{column: at}}
            columns: [{{name: who, type: string}}, {{name: nr, type: int64}}, {{name: at, type: timestamp}}]
        - name: places
          keyBy: [who]
          enrich:
            function: {__name__}:typed
            order: any
            capacity: 7
            timeout: 2s
            retries: {{most: 3, wait: 50ms, errors: ["builtins:OSError"]}}
            onError: dead-letter
            cache: {{rows: 1000, ttl: 5m}}
        - {{name: out, sink: {{discard: {{}}}}}}
        - {{name: bad, inputs: [places.dead-letter], sink: {{discard: {{}}}}}}
"""


def enriched(fetch: Any = typed, *, keyed: bool = True, **options: Any) -> CompiledJob:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns=COLUMNS, event_time="at")
    places = (rows.key_by("who") if keyed else rows).enrich("places", fetch, **options)
    places.sink("out", ps.discard())
    if options.get("on_error") == "dead-letter":
        places.dead_letter.sink("bad", ps.discard())
    return compiled(job)


def test_the_result_has_the_columns_of_the_row_and_of_the_answer() -> None:
    places = enriched(on_error="dead-letter").stages[1].nodes[0]
    assert [c.name for c in places.outputs["main"]] == ["who", "nr", "at", "city"]
    assert [c.name for c in places.outputs["dead-letter"]][:4] == ["who", "nr", "at", "error_step"]
    assert places.time == "at"


def test_the_file_and_python_say_the_same(tmp_path: Path) -> None:
    of_file = loaded(tmp_path, FILE)
    of_python = enriched(
        order="any",
        capacity=7,
        timeout="2s",
        retries=ps.retries(3, "50ms", on=(OSError,)),
        on_error="dead-letter",
        cache=ps.cache(1000, ttl="5m"),
    )
    assert of_file.graph.step("places") == of_python.graph.step("places")
    declared = of_file.graph.step("places").parameters
    assert isinstance(declared, Enrich)
    assert (declared.order, declared.on_error) == (ResultOrder.ANY, OnFailure.DEAD_LETTER)
    assert declared.retries == Retries(3, 50_000, 2, ("builtins:OSError",))
    assert declared.cache == Cache(1000, 300_000_000)
    assert decode_graph(encode_graph(of_file.graph)) == of_file.graph
    assert of_file.plan.states[1] == of_python.plan.states[1]
    assert describe(declared) == f"answers of {__name__}:typed, 7 calls at once, in the order of any"


def test_a_function_without_types_and_an_object_say_their_columns() -> None:
    for fetch in (plain, Remote()):
        places = enriched(fetch, columns={"city": "string"}, batch=20).stages[1].nodes[0]
        assert [c.name for c in places.outputs["main"]] == ["who", "nr", "at", "city"]


def test_each_enrich_begins_a_stage() -> None:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns=COLUMNS).key_by("who").distinct("first").key_by("who")
    rows.enrich("places", typed).key_by("who").distinct("again").sink("out", ps.discard())
    assert [stage.plan.steps for stage in compiled(job).stages] == [
        ("rows",),
        ("first",),
        ("places",),
        ("again", "out"),
    ]


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (blocking, {"columns": {"city": "string"}}, r"blocking \(.*\) is not asynchronous: write async def"),
    (plain, {}, "columns are missing: declare the columns of the answer"),
    (plain, {"columns": {"nr": "int64"}}, "two columns are named 'nr'"),
    (typed, {"columns": {"city": "string"}}, "has types, which say its columns and its state"),
    (of_wrong, {}, "whom"),
    (typed, {"order": "by time"}, "order='by time' is not one of input, any"),
    (typed, {"on_error": "drop"}, "on_error='drop' is not one of fail, dead-letter, null"),
    (typed, {"capacity": 0}, "capacity=0: it must be a whole number from 1 to 10,000"),
    (typed, {"batch": 2}, "batch=2: typed .* takes one Asked: with a batch it gets a list of dicts"),
    (typed, {"timeout": "0s"}, "timeout='0s': it must be at least 1ms"),
    (typed, {"retries": 3}, r"retries=3: write retries=ps.retries\(...\)"),
    (typed, {"cache": 3}, r"cache=3: write cache=ps.cache\(...\)"),
    (typed, {"keyed": False}, r"keeps state for each key: its input must be keyed \(key_by, keyBy\)"),
]


@pytest.mark.parametrize(("fetch", "options", "text"), WRONG)
def test_what_does_not_fit_is_refused_with_file_and_line(fetch: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){HERE}:\d+: step 'places': .*({text})"):
        enriched(fetch, **options)


def test_a_cache_needs_types() -> None:
    with pytest.raises(ConfigError, match=r"cache: plain \(.*\) has no types"):
        enriched(plain, columns={"city": "string"}, cache=ps.cache(5))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ps.retries(0), "retries: most=0: it must be a whole number from 1 to 100"),
        (lambda: ps.retries(3, factor=0), "retries: factor=0"),
        (lambda: ps.retries(3, "soon"), "wait: 'soon' is no duration"),
        (lambda: ps.retries(3, on=(3,)), "retries: on: 3 is no class of errors"),  # type: ignore[arg-type]
        (lambda: ps.cache(0), "cache: rows=0: it must be a whole number from 1"),
    ],
)
def test_wrong_retries_and_caches_are_refused_with_file_and_line(make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"{HERE}:\d+: .*{text}"):
        make()


WRONG_FILES = [
    ("capacity: 7", "capacity: 0", "capacity"),
    ("timeout: 2s", "timeout: 0s", "timeout"),
    ("order: any", "order: sorted", "order"),
    ("most: 3", "most: 0", "most"),
    ("builtins:OSError", "builtins:print", "'builtins:print' is no class of errors"),
    ("builtins:OSError", "builtins:Gone", "'builtins:Gone' cannot be imported"),
    (f"{__name__}:typed", f"{__name__}:blocking", "is not asynchronous"),
    ("          keyBy: [who]\n", "", "keyBy"),
]


@pytest.mark.parametrize(("old", "new", "text"), WRONG_FILES)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, text: str) -> None:
    refusal(tmp_path, FILE, old, new, text)
