"""The time of Python's garbage collector is measured in the engine, and read from its lines."""

import gc
from pathlib import Path

from bench import garbage


def test_collections_between_two_checkpoints_are_counted(tmp_path: Path) -> None:
    collections = garbage.Collections(tmp_path)
    before = list(gc.callbacks)
    gc.collect()  # before the first checkpoint: it does not count
    collections.tell()
    gc.collect()
    gc.collect()
    collections.tell()
    gc.callbacks[:] = before
    (engine,) = garbage.read(tmp_path)
    assert engine[0]["count"] == 0
    assert engine[1]["count"] >= 2
    assert 0 < engine[1]["gc_s"] <= engine[1]["at"] - engine[0]["at"]


def test_the_share_is_that_of_all_engines() -> None:
    def told(at: float, cpu_s: float, gc_s: float, count: int) -> garbage.Told:
        return {"at": at, "cpu_s": cpu_s, "gc_s": gc_s, "count": count}

    first = [told(1.0, 5.0, 1.0, 2), told(2.0, 5.5, 1.1, 2), told(3.0, 6.0, 1.5, 12)]
    second = [told(1.0, 0.0, 0.0, 0), told(3.0, 1.0, 0.0, 0)]
    assert garbage.figures([first, second, [told(9.0, 9.0, 9.0, 9)]]) == {"gc_share": 0.25, "collections_per_s": 2.5}
    assert garbage.figures([]) == {}
