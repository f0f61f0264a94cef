"""The kit for users' tests: lists as sources, sinks that collect, time that stands still.

    import penstock.testing as pt

    with pt.run(job, inputs={"lines": [{"line": "a b a"}]}) as t:
        t.run()
        assert t.rows("output") == [...]

All of it runs in the test's thread, through the parts that an engine is made of: see docs/testing.md.
"""

from penstock.inprocess.collect import CollectSink, Rows
from penstock.inprocess.list_source import ABORT, EOF, PAUSE, ListSource, Marker
from penstock.inprocess.run import Result
from penstock.testing.clock import StandingClock
from penstock.testing.drawn import rows
from penstock.testing.harness import Run, Snapshot, run
from penstock.testing.same import same

__all__ = [
    "ABORT",
    "EOF",
    "PAUSE",
    "CollectSink",
    "ListSource",
    "Marker",
    "Result",
    "Rows",
    "Run",
    "Snapshot",
    "StandingClock",
    "rows",
    "run",
    "same",
]
