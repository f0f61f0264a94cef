"""The public names are pinned, cheap to look up, and all there."""

import penstock

NAMES = {
    "Aggregation",
    "ConfigError",
    "Farm",
    "Job",
    "KeyedStream",
    "Parameters",
    "Pending",
    "PenstockError",
    "Pipeline",
    "Read",
    "Refusing",
    "Sink",
    "SinkHandle",
    "SinkPublisher",
    "SinkWriter",
    "Source",
    "SplitReader",
    "SplitState",
    "StateError",
    "StorageError",
    "Stream",
    "UserCodeError",
    "__version__",
    "count",
    "discard",
    "farm",
    "generator",
    "ingest",
    "last",
    "max",
    "mean",
    "min",
    "parquet",
    "pipeline",
    "sum",
}
STREAM_METHODS = {
    "broadcast",
    "dead_letter",
    "filter",
    "flat_map",
    "forward",
    "key_by",
    "late",
    "map",
    "output",
    "parallel",
    "partition",
    "round_robin",
    "sink",
    "split",
    "union",
}


def test_public_names_are_these() -> None:
    assert set(penstock.__all__) == NAMES == set(dir(penstock))
    assert all(getattr(penstock, name) is not None for name in NAMES)


def test_methods_of_streams_are_these() -> None:
    def public(kind: type) -> set[str]:
        return {n for n in vars(kind) if not n.startswith("_")}

    assert public(penstock.Job) == {"source"}
    assert public(penstock.Stream) == STREAM_METHODS
    assert public(penstock.KeyedStream) == {"aggregate", "process", "window"}
