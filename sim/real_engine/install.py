"""Prepares a process for runs of the real engine, before anything of the engine is imported.

The twins take the places of the names in ``penstock.base.threads``. Flight's twins take two places of
the transport, one of pushed input, and two of its sender; that of asyncio takes one of the engine, and those of the
clients of servers one of each connector. Some
limits become small, so that small runs reach them: output parts get full, state files are merged, steps fire in
several slices, and state on disk keeps few rows in memory. Nothing else differs from what ships.
"""

import sys
from collections.abc import Sequence

from penstock.base import limits, threads
from sim.mutants.patching import Patch
from sim.mutants.patching import install as install_patch
from sim.real_engine.thread_twins import TWINS

SIMULATED = ("connectors", "engine", "keyed_state", "steps", "transport")
TRANSACTION_MAX_MS = 600  # of Kafka: some have more than one transaction, and a broker ends some
SMALL_LIMITS = {
    "SINK_PART_BYTES": 1_500,
    "STATE_FILES_PER_TASK_MAX": 3,
    "STATE_TABLE_ROWS_MIN": 4,
    "FIRED_ROWS_MAX": 8,
    "FIRED_SLIDING_ROWS_MAX": 2,
    "FIRED_TIMERS_MAX": 4,
    "JOIN_WINDOWS_MAX": 32,
}


def install(patches: Sequence[Patch] = ()) -> None:
    """Prepare this process for good. ``patches`` change lines of the engine, see :mod:`sim.mutants.patching`."""
    loaded = [name for name in sys.modules if name.startswith(tuple(f"penstock.{p}." for p in SIMULATED))]
    assert not loaded, f"imported with real threads already: {loaded[:3]}"
    for name, twin in TWINS.items():
        setattr(threads, name, twin)
    for name, value in SMALL_LIMITS.items():
        assert value < getattr(limits, name)
        setattr(limits, name, value)
    for patch in patches:
        install_patch(patch)
    _replace_flight()


def _replace_flight() -> None:
    from penstock.connectors import ingest_server  # noqa: PLC0415 - only after the twins are in place
    from penstock.connectors.kafka import marked_topic, topics  # noqa: PLC0415
    from penstock.connectors.postgres import client  # noqa: PLC0415
    from penstock.connectors.s3 import object_folder  # noqa: PLC0415
    from penstock.engine import task_calls  # noqa: PLC0415
    from penstock.transport import server, stream  # noqa: PLC0415
    from penstock_spark import push  # noqa: PLC0415
    from sim.real_engine import asyncio_twins, flight_twins, ingest_twins, server_calls  # noqa: PLC0415

    replaced: tuple[tuple[object, str, object], ...] = (
        (server, "FlightServer", flight_twins.SimFlightServer),
        (stream, "dial", flight_twins.dial),
        (ingest_server, "IngestServer", ingest_twins.SimIngestServer),
        (task_calls, "asyncio", asyncio_twins.SimAsyncio),
        (client, "library", server_calls.postgres_api),
        (marked_topic, "make_client", server_calls.make_client),
        (marked_topic, "TRANSACTION_MAX_MS", TRANSACTION_MAX_MS),
        (topics, "make_client", server_calls.make_client),
        (object_folder, "_connect", server_calls.connect_bucket),
        (push, "fl", ingest_twins.SenderFlight),
        (push, "time", ingest_twins.SenderTime),
    )
    for module, name, twin in replaced:
        assert hasattr(module, name), f"{module} has no {name}"
        setattr(module, name, twin)
