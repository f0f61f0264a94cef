"""Penstock: stateful stream processing in Python.

The public API is what this file names. Names are looked up when first used: the operator and
the keeper import ``penstock.contract``, and must not pay for Arrow and numba to do so.
"""

from importlib import import_module

TYPE_CHECKING = False  # as mypy knows it; typing itself costs more than the rest of this file
if TYPE_CHECKING:
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
    from penstock.graph.builder import Job, KeyedStream, Stream
    from penstock.graph.connect import discard, generator, ingest, parquet
    from penstock.graph.parameters import Parameters
    from penstock.inprocess.run import Result, run
    from penstock.patterns.pipeline_farm import Farm, Pipeline, farm, pipeline
    from penstock.ports import (
        Pending,
        Read,
        Sink,
        SinkPublisher,
        SinkWriter,
        Source,
        SplitReader,
    )
    from penstock.steps.refusals import Refusing

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
    "penstock.graph.builder": ("Job", "KeyedStream", "Stream"),
    "penstock.graph.connect": ("discard", "generator", "ingest", "parquet"),
    "penstock.graph.parameters": ("Parameters",),
    "penstock.inprocess.run": ("Result", "run"),
    "penstock.patterns.pipeline_farm": ("Farm", "Pipeline", "farm", "pipeline"),
    "penstock.ports": (
        "Pending",
        "Read",
        "Sink",
        "SinkPublisher",
        "SinkWriter",
        "Source",
        "SplitReader",
    ),
    "penstock.steps.refusals": ("Refusing",),
}
_SPELLED = {"max": "max_", "min": "min_", "sum": "sum_"}  # not to hide the built-ins at home
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = ("testing",)

__all__ = [
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
    "Result",
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
    "run",
    "sum",
    "testing",
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
