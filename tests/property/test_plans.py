"""Plans of random graphs: each step is in one stage, each input arrives once, shuffles are needed."""

from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.contract.graph import decode_graph, encode_graph
from penstock.contract.plan import Partitioning
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import ENTRY, CompiledJob, JobFile
from penstock.graph.load import compile_draft

COLUMNS = {"k": "int64", "word": "string"}
Move = tuple[str, int, int, int | None]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["filter", "key", "broadcast", "round", "union", "union-key"]),
        st.integers(0, 20),
        st.integers(0, 20),
        st.sampled_from([None, None, 1, 3]),
    ),
    min_size=1,
    max_size=12,
)


def keep_all(batch: object) -> object:
    return batch


def build(moves: list[Move]) -> CompiledJob:
    """Grow a graph: each move reads one or two earlier streams; every stream ends in a sink too."""
    job = ps.Job()
    streams = [job.source("source", ps.parquet("x"), columns=COLUMNS)]
    for number, (kind, one, two, tasks) in enumerate(moves):
        stream = streams[one % len(streams)]
        if kind.startswith("union"):
            stream = stream.union(streams[two % len(streams)])
        if kind in ("key", "union-key"):
            stream = stream.key_by("k")
        elif kind == "broadcast":
            stream = stream.broadcast()
        elif kind == "round":
            stream = stream.round_robin()
        if tasks is not None:
            stream = stream.parallel(tasks)
        streams.append(stream.filter(f"f{number}", keep_all))
    for number, stream in enumerate(streams):
        stream.sink(f"out{number}", ps.discard())
    file = JobFile(StreamJob("random", Spec(job=Job(entrypoint="a:b"))), {})
    return compile_draft(file, job.draft, None)


@given(MOVES)
def test_plans_of_random_graphs(moves: list[Move]) -> None:
    job = build(moves)
    assert decode_graph(encode_graph(job.graph)) == job.graph
    home = {node.name: stage for stage in job.stages for node in stage.nodes}
    assert sorted(home) == sorted(s.name for s in job.graph.steps)
    for step in job.graph.steps:
        inside = [i for i in step.inputs if home[i.step] is home[step.name]]
        edges = [e for e in job.edges if job.stages[e.plan.receiver].nodes[0].name == step.name]
        if inside:
            assert len(inside) == len(step.inputs)
            keyed = [i for i in inside if i.partitioning is not None]
            assert all(i.partitioning is Partitioning.KEY for i in keyed)
            assert all(home[step.name].plan.keyed for _ in keyed)  # dealt out by the same column
        elif step.inputs:
            assert len(edges) == len(step.inputs)
            assert all(e.plan.sender < e.plan.receiver for e in edges)
    for stage in job.stages:
        assert all(link.node == ENTRY or link.node < i for i, n in enumerate(stage.nodes) for link in n.inputs)
        forward = [e for e in job.edges if e.plan.receiver == stage.plan.index]
        for edge in forward:
            if edge.plan.partitioning is Partitioning.FORWARD:
                assert job.plan.stages[edge.plan.sender].parallelism == stage.plan.parallelism
