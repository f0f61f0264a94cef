"""Steps with several inputs: columns are compared side by side, and edges keep their side through the plan."""

from penstock.contract.columns import Column
from penstock.contract.graph import (
    LEFT,
    RIGHT,
    Call,
    Connector,
    Input,
    LogicalGraph,
    Process,
    Sink,
    Source,
    Step,
    decode_graph,
    encode_graph,
)
from penstock.contract.plan import Partitioning
from penstock.graph.draft import GraphDraft
from penstock.graph.flow import ColumnFinder, input_flow, trace
from penstock.graph.planner import lay_out
from penstock.graph.problems import Problems

OUT = (Column("k", "int64"),)


class Nothing:
    """Finds no columns."""

    def source_columns(self, step: Step) -> None:
        return None

    def type_problem(self, column: Column) -> None:
        return None

    def record_problem(self, step: Step, columns: object, side: str) -> None:
        return None

    def call_columns(self, step: Step, columns: object) -> None:
        return None


FINDER: ColumnFinder = Nothing()


def source(name: str, *columns: Column) -> Step:
    return Step(name, Source(Connector("generator"), columns))


def keyed(step: str, key: str, side: str = "") -> Input:
    return Input(step, "main", Partitioning.KEY, (key,), side=side)


def graph(*inputs: Input) -> LogicalGraph:
    sources = (
        source("a", Column("k", "int64"), Column("x", "double")),
        source("b", Column("id", "int64")),
        source("c", Column("id", "int64")),
    )
    both = Step("both", Process(Call("m:f", columns=OUT)), inputs)
    return LogicalGraph("job", (*sources, both, Step("out", Sink(Connector("discard")), (Input("both"),))))


SIDES = (keyed("a", "k", LEFT), keyed("b", "id", RIGHT), keyed("c", "id", RIGHT))


def problems_of(checked: LogicalGraph) -> str:
    problems = Problems(GraphDraft())
    trace(checked, FINDER, problems)
    return "\n".join(problems._found)


def test_sides_may_have_different_columns_and_the_inputs_of_one_side_may_not() -> None:
    assert problems_of(graph(*SIDES)) == ""
    assert "its inputs have different columns: a has (k int64, x double), b has (id int64)" in problems_of(
        graph(keyed("a", "k"), keyed("b", "id"))
    )
    found = problems_of(graph(keyed("b", "id", LEFT), keyed("c", "id", RIGHT), keyed("a", "k", RIGHT)))
    assert "its inputs have different columns: c has (id int64)" in found


def test_each_side_has_its_own_flow() -> None:
    flows = trace(graph(*SIDES), FINDER, Problems(GraphDraft()))
    step = graph(*SIDES).step("both")
    assert step.sides == (LEFT, RIGHT)
    assert [len(input_flow(step, flows, side).columns or ()) for side in (None, LEFT, RIGHT)] == [2, 2, 1]


def test_a_step_with_sides_begins_a_stage_even_where_both_inputs_are_in_one() -> None:
    once = graph(keyed("b", "id", LEFT), keyed("b", "id", RIGHT))
    layout = lay_out(once, Problems(GraphDraft()))
    assert [(e.input.side, e.plan.sender, e.plan.receiver) for e in layout.edges] == [(LEFT, 1, 3), (RIGHT, 1, 3)]


def test_the_side_of_an_input_is_part_of_the_graph_and_old_graphs_have_none() -> None:
    data = encode_graph(graph(*SIDES))
    assert decode_graph(data) == graph(*SIDES)
    assert {i.side for i in decode_graph(data.replace(b',"side":"right"', b"")).step("both").inputs} == {"", LEFT}
