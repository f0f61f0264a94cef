"""`kubectl scale` of a running job: exact, and no remaining pod is restarted."""

import time

import pytest

from e2e.rig.wordcount import WordCount

SCALE_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0
LINES_PER_S = 250  # of each of eight files of four words a line: over three minutes of input


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [{"lines": 400_000}], indirect=True)
def test_scaling_touches_no_pod_that_stays(wordcount: WordCount) -> None:
    wordcount.start(rate=LINES_PER_S)
    told: dict[int, float] = {}
    for workers in (3, 1, 4):
        before = wordcount.lives()
        begun = time.monotonic()
        wordcount.scale(workers, SCALE_TIMEOUT_S)
        took = time.monotonic() - begun
        after = wordcount.lives()
        stayed = set(before) & set(after)
        assert stayed, "the first workers stay"
        assert {n: after[n] for n in stayed} == {n: before[n] for n in stayed}
        told |= pauses(wordcount, told)
        print(f"{len(before)} -> {workers} workers: Ready after {took:.1f} s")
    print(f"rows that moved were held, ms by version: {told}")
    assert told, "every rescale reports how long it held rows"
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()


def pauses(job: WordCount, known: dict[int, float]) -> dict[int, float]:
    """Give the longest pause of moved rows in ms, by the version that they moved to."""
    found: dict[int, float] = {}
    for line in job.logged("engine", "rescale_released"):
        version, held_ms = int(line["version"]), float(line["moved_ms"])
        if version not in known:
            found[version] = max(held_ms, found.get(version, 0.0))
    return found
