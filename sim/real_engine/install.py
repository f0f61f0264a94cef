"""Prepares a process for runs of the real engine, before anything of the engine is imported.

The twins take the places of the names in ``penstock.base.threads``. Flight's twins take two places of
the transport. Two limits become small, so that small runs reach them: output parts get full, and
state files are merged. Nothing else differs from what ships.
"""

import sys
from collections.abc import Sequence

from penstock.base import limits, threads
from sim.mutants.patching import Patch
from sim.mutants.patching import install as install_patch
from sim.real_engine.thread_twins import TWINS

SIMULATED = ("connectors", "engine", "keyed_state", "steps", "transport")
PART_BYTES = 1_500
STATE_FILES_MAX = 3


def install(patches: Sequence[Patch] = ()) -> None:
    """Prepare this process for good. ``patches`` change lines of the engine, see :mod:`sim.mutants.patching`."""
    loaded = [name for name in sys.modules if name.startswith(tuple(f"penstock.{p}." for p in SIMULATED))]
    assert not loaded, f"imported with real threads already: {loaded[:3]}"
    for name, twin in TWINS.items():
        setattr(threads, name, twin)
    limits.SINK_PART_BYTES, limits.STATE_FILES_PER_TASK_MAX = PART_BYTES, STATE_FILES_MAX
    for patch in patches:
        install_patch(patch)
    _replace_flight()


def _replace_flight() -> None:
    from penstock.transport import server, stream  # noqa: PLC0415 - only after the twins are in place
    from sim.real_engine import flight_twins  # noqa: PLC0415

    replaced: tuple[tuple[object, str, object], ...] = (
        (server, "FlightServer", flight_twins.SimFlightServer),
        (stream, "dial", flight_twins.dial),
    )
    for module, name, twin in replaced:
        assert hasattr(module, name), f"{module} has no {name}"
        setattr(module, name, twin)
