"""From nothing to a finished job: chart, `kubectl apply`, Ready, checkpoints, exact output."""

import time

from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import START_TIMEOUT_S, WordCount

COMMIT_TIMEOUT_S = 60.0
END_TIMEOUT_S = 180.0


def test_the_word_count_of_the_examples_is_exact(wordcount: WordCount) -> None:
    begun = time.monotonic()
    wordcount.apply(rate=350)
    wordcount.until_state("Running", START_TIMEOUT_S)
    print(f"applied, Running after {time.monotonic() - begun:.1f} s")
    wordcount.until("Ready", START_TIMEOUT_S)
    shown = wordcount.shown_epoch()
    wait_for("a checkpoint", lambda: wordcount.shown_epoch() > shown, COMMIT_TIMEOUT_S,
             wordcount.say)  # fmt: skip
    print(f"applied, Ready and a checkpoint after {time.monotonic() - begun:.1f} s")
    print(wordcount.kubectl("get", "sj", "-o", "wide"))
    wordcount.until_finished(END_TIMEOUT_S)
    assert wordcount.shown_epoch() == wordcount.epoch(), "the status shows the committed epoch"
    print(wordcount.check_with_spark())
