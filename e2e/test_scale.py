"""`kubectl scale` of a running job: exact, and no pod that stays is touched."""

import time

from e2e.rig.wordcount import WordCount

SCALE_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0


def test_scaling_touches_no_pod_that_stays(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    for workers in (3, 1, 4):
        before = wordcount.lives()
        begun = time.monotonic()
        wordcount.scale(workers, SCALE_TIMEOUT_S)
        took = time.monotonic() - begun
        after = wordcount.lives()
        stayed = set(before) & set(after)
        assert stayed, "the first workers stay"
        assert {n: after[n] for n in stayed} == {n: before[n] for n in stayed}
        print(f"{len(before)} -> {workers} workers: Ready after {took:.1f} s")
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()
