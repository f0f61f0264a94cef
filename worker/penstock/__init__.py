"""Penstock: stateful stream processing in Python.

The public API is what this file names. Names are looked up when first used: the operator and
the keeper import ``penstock.contract``, and must not pay for Arrow and numba to do so.
"""

from importlib import import_module

TYPE_CHECKING = False  # as mypy knows it; typing itself costs more than the rest of this file
if TYPE_CHECKING:
    from typing import Literal as Enum

    from penstock import testing
    from penstock.base.errors import (
        ConfigError,
        PenstockError,
        StateError,
        StorageError,
        UserCodeError,
    )
    from penstock.contract.manifest import SinkHandle, SplitState
    from penstock.graph.aggregations import Aggregation, count, last, mean
    from penstock.graph.aggregations import max_ as max  # noqa: A004  ps.max is no built-in
    from penstock.graph.aggregations import min_ as min  # noqa: A004
    from penstock.graph.aggregations import sum_ as sum  # noqa: A004
    from penstock.graph.builder import Job, Stream
    from penstock.graph.connect import (
        csv,
        delta,
        discard,
        generator,
        iceberg,
        ingest,
        json,
        kafka,
        parquet,
        plugin,
        postgres,
        s3,
    )
    from penstock.graph.connected import connect
    from penstock.graph.enriched import cache, retries
    from penstock.graph.keyed_stream import KeyedStream
    from penstock.graph.migrating import migrate
    from penstock.graph.parameters import Parameters
    from penstock.graph.plugins import ConnectorPlugin
    from penstock.graph.window_shapes import count_window, session, sliding, tumbling
    from penstock.graph.window_tops import top
    from penstock.graph.window_triggers import at_end, early, on_late
    from penstock.inprocess.run import Result, run
    from penstock.model.declared.hints import (
        Aggregate,
        ClockTimer,
        Decimal,
        List,
        Map,
        Out,
        Ring,
        Set,
        Time,
        Timer,
        Timers,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from penstock.model.declared.record_types import record
    from penstock.model.declared.spans import days, hours, milliseconds, minutes, seconds
    from penstock.model.declared.state_types import field_ as field
    from penstock.model.declared.state_types import renamed, state
    from penstock.patterns.pipeline_farm import Farm, Pipeline, farm, pipeline
    from penstock.ports import (
        Found,
        Lookup,
        LookupConnection,
        Pending,
        Read,
        Sink,
        SinkPublisher,
        SinkWriter,
        Source,
        SplitReader,
    )
    from penstock.steps.refusals import Refusing
    from penstock.steps.seq_node import SeqNode

__version__ = "0.1.0"

_HOMES = {
    "penstock.base.errors": (
        "ConfigError",
        "PenstockError",
        "StateError",
        "StorageError",
        "UserCodeError",
    ),
    "penstock.contract.manifest": ("SinkHandle", "SplitState"),
    "penstock.graph.aggregations": ("Aggregation", "count", "last", "max", "mean", "min", "sum"),
    "penstock.graph.builder": ("Job", "Stream"),
    "penstock.graph.migrating": ("migrate",),
    "penstock.graph.connect": (
        "csv",
        "delta",
        "discard",
        "generator",
        "iceberg",
        "ingest",
        "json",
        "kafka",
        "parquet",
        "plugin",
        "postgres",
        "s3",
    ),
    "penstock.graph.connected": ("connect",),
    "penstock.graph.enriched": ("cache", "retries"),
    "penstock.graph.keyed_stream": ("KeyedStream",),
    "penstock.graph.parameters": ("Parameters",),
    "penstock.graph.plugins": ("ConnectorPlugin",),
    "penstock.inprocess.run": ("Result", "run"),
    "penstock.model.declared.hints": (
        "Aggregate",
        "ClockTimer",
        "Decimal",
        "Enum",
        "List",
        "Map",
        "Out",
        "Ring",
        "Set",
        "Time",
        "Timer",
        "Timers",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ),
    "penstock.graph.window_shapes": ("count_window", "session", "sliding", "tumbling"),
    "penstock.graph.window_tops": ("top",),
    "penstock.graph.window_triggers": ("at_end", "early", "on_late"),
    "penstock.model.declared.record_types": ("record",),
    "penstock.model.declared.spans": ("days", "hours", "milliseconds", "minutes", "seconds"),
    "penstock.model.declared.state_types": ("field", "renamed", "state"),
    "penstock.patterns.pipeline_farm": ("Farm", "Pipeline", "farm", "pipeline"),
    "penstock.ports": (
        "Found",
        "Lookup",
        "LookupConnection",
        "Pending",
        "Read",
        "Sink",
        "SinkPublisher",
        "SinkWriter",
        "Source",
        "SplitReader",
    ),
    "penstock.steps.refusals": ("Refusing",),
    "penstock.steps.seq_node": ("SeqNode",),
}
_SPELLED = {"field": "field_", "max": "max_", "min": "min_", "sum": "sum_"}  # not to hide the built-ins at home
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = ("testing",)

__all__ = [
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
    "int8",
    "int16",
    "int32",
    "int64",
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
    "pipeline",
    "plugin",
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
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name in _PACKAGES:
        return import_module(f"penstock.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value: object = getattr(import_module(home), _SPELLED.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
