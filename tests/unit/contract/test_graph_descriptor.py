"""A logical graph is the same after a way through JSON; the parsers of units read what Go writes."""

import pytest

from penstock.base.errors import PeerError
from penstock.base.units import duration_us, quantity_bytes
from penstock.contract.columns import Column, is_key_type, normal_type
from penstock.contract.event_time import EventTime
from penstock.contract.graph import (
    Aggregate,
    Call,
    Compute,
    Connector,
    Function,
    Input,
    LogicalGraph,
    Map,
    OnError,
    Per,
    Process,
    Sink,
    Source,
    Split,
    Step,
    Window,
    decode_graph,
    encode_graph,
)
from penstock.contract.plan import Partitioning

COUNT = (Compute("n", Function.COUNT), Compute("s", Function.SUM, "t"))
KEYED = (Input("b", "main", Partitioning.KEY, ("k",)),)
GRAPH = LogicalGraph(
    "job",
    (
        Step(
            "a",
            Source(
                Connector("parquet", {"path": "x", "rows": 3, "half": 0.5}),
                (Column("t", "double"),),
            ),
        ),
        Step("t", Source(Connector("ingest"), (), EventTime("ts", 5, None))),
        Step(
            "b",
            Map(Call("m:f", Per.RECORD, 10, (Column("k", "int64"),), OnError.DEAD_LETTER)),
            (Input("a"),),
        ),
        Step("c", Split("k"), (Input("b", "dead-letter"),), parallelism=2),
        Step("d", Aggregate(COUNT), KEYED),
        Step("e", Window(60, COUNT, 1, 2), KEYED),
        Step("f", Process(Call("m:g"), (Column("x", "int64"),)), KEYED),
        Step("g", Sink(Connector("parquet", {"path": "y"})), (Input("e", "late"), Input("f"))),
    ),
)


def test_json_and_values_are_one() -> None:
    data = encode_graph(GRAPH)
    assert decode_graph(data) == GRAPH
    assert encode_graph(decode_graph(data)) == data


def test_unknown_fields_kinds_and_formats_are_refused() -> None:
    data = encode_graph(GRAPH)
    with pytest.raises(PeerError, match="unknown field `jobb`"):
        decode_graph(data.replace(b'"job":', b'"jobb":'))
    with pytest.raises(PeerError, match=r"Invalid value 'Splitt' - at `\$\.steps\[3\]"):
        decode_graph(data.replace(b'"is":"Split"', b'"is":"Splitt"'))
    with pytest.raises(PeerError, match="graph format 2: this version reads 1"):
        decode_graph(data.replace(b'"format":1', b'"format":2'))


def test_outputs_follow_from_the_parameters() -> None:
    assert {s.name: s.outputs for s in GRAPH.steps} == {
        "a": ("main",),
        "t": ("main",),
        "b": ("main", "dead-letter"),
        "c": ("main",),
        "d": ("main",),
        "e": ("main", "late"),
        "f": ("main",),
        "g": (),
    }
    assert [s.name for s in GRAPH.readers_of("b")] == ["d", "e", "f"]
    assert [s.name for s in GRAPH.readers_of("e", "late")] == ["g"]


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("10s", 10_000_000),
        ("1m30s", 90_000_000),
        ("1.5h", 5_400_000_000),
        ("250us", 250),
        ("0", 0),
        ("0s", 0),
    ],
)
def test_durations(text: str, us: int) -> None:
    assert duration_us(text) == us


@pytest.mark.parametrize("text", ["", "10", "s", "10 s", "-1s", "1w", "1s1", "1.s"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        duration_us(text)


@pytest.mark.parametrize(("text", "size"), [("64Mi", 2**26), ("1.5Gi", 3 * 2**29), ("2k", 2000), (17, 17), ("17", 17)])
def test_quantities(text: str | int, size: int) -> None:
    assert quantity_bytes(text) == size


@pytest.mark.parametrize("text", ["64MB", "", "-1", "1e3", "Mi"])
def test_bad_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        quantity_bytes(text)


def test_types_are_spelled_as_arrow_does() -> None:
    assert normal_type(" float64 ") == "double"
    assert normal_type("timestamp") == "timestamp[us]"
    for good in ("string", "int8", "timestamp[us]", "timestamp[us, tz=UTC]", "decimal128(18, 2)"):
        assert is_key_type(good), good
    assert is_key_type("dictionary<values=string, indices=int32, ordered=0>")
    for bad in ("uint8", "timestamp[ns]", "decimal128(19, 2)", "list<item: int64>", "null"):
        assert not is_key_type(bad), bad
