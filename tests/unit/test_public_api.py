"""The public names are pinned, cheap to look up, and all there."""

import pkgutil

import penstock

NAMES = {
    "Aggregate",
    "Aggregation",
    "ClockTimer",
    "ConfigError",
    "ConnectorPlugin",
    "Decimal",
    "Enum",
    "Farm",
    "Found",
    "Job",
    "KeyedStream",
    "List",
    "Lookup",
    "LookupConnection",
    "Map",
    "Out",
    "Parameters",
    "Pending",
    "PenstockError",
    "Pipeline",
    "Read",
    "Refusing",
    "Result",
    "Ring",
    "SeqNode",
    "Set",
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
    "Time",
    "Timer",
    "Timers",
    "UserCodeError",
    "__version__",
    "at_end",
    "cache",
    "connect",
    "count",
    "count_window",
    "csv",
    "days",
    "delta",
    "discard",
    "early",
    "farm",
    "field",
    "float32",
    "float64",
    "generator",
    "hours",
    "iceberg",
    "ingest",
    "int16",
    "int32",
    "int64",
    "int8",
    "json",
    "kafka",
    "last",
    "max",
    "mean",
    "migrate",
    "milliseconds",
    "min",
    "minutes",
    "on_late",
    "parquet",
    "plugin",
    "pipeline",
    "postgres",
    "record",
    "renamed",
    "retries",
    "run",
    "s3",
    "seconds",
    "session",
    "sliding",
    "state",
    "sum",
    "testing",
    "top",
    "tumbling",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
}
TESTING = {
    "ABORT",
    "CollectSink",
    "EOF",
    "ListSource",
    "Marker",
    "PAUSE",
    "Result",
    "Rows",
    "Run",
    "Snapshot",
    "StandingClock",
    "rows",
    "run",
    "same",
}
RUN_METHODS = {
    "abort",
    "advance",
    "checkpoint",
    "close",
    "push",
    "restore",
    "result",
    "rows",
    "run",
    "snapshot",
    "state",
    "watermark",
}
STREAM_METHODS = {
    "join",
    "join_interval",
    "join_table",
    "late_right",
    "broadcast",
    "dead_letter",
    "enrich",
    "filter",
    "flat_map",
    "forward",
    "key_by",
    "late",
    "lookup",
    "map",
    "output",
    "parallel",
    "partition",
    "round_robin",
    "side",
    "sink",
    "split",
    "union",
    "window_all",
}


def test_public_names_are_these() -> None:
    assert set(penstock.__all__) == NAMES == set(dir(penstock))
    assert all(getattr(penstock, name) is not None for name in NAMES)


def test_methods_of_streams_are_these() -> None:
    def public(kind: type) -> set[str]:
        return {n for n in vars(kind) if not n.startswith("_")}

    assert public(penstock.Job) == {"run", "source"}
    assert public(penstock.Stream) == STREAM_METHODS
    assert public(penstock.KeyedStream) == {"aggregate", "distinct", "latest", "process", "top", "window"}


def test_names_of_the_kit_for_tests_are_these() -> None:
    assert set(penstock.testing.__all__) == TESTING
    assert all(getattr(penstock.testing, name) is not None for name in TESTING)
    run = {n for n in vars(penstock.testing.Run) if not n.startswith("_")}
    assert run == RUN_METHODS


def test_no_public_name_is_hidden_by_a_package() -> None:
    """An import of ``penstock.x`` sets the attribute ``x``, whatever the public name was."""
    modules = {module.name for module in pkgutil.iter_modules(penstock.__path__)}
    assert modules & set(penstock.__all__) == {"testing"}
