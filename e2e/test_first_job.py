"""From nothing to a finished job: chart, `kubectl apply`, Ready, checkpoints, exact output."""

from e2e.rig.wordcount import WordCount

COMMIT_TIMEOUT_S = 60.0
END_TIMEOUT_S = 180.0


def test_the_word_count_of_the_examples_is_exact(wordcount: WordCount) -> None:
    wordcount.start(rate=100)
    wordcount.commits(1, COMMIT_TIMEOUT_S)
    wordcount.until_finished(END_TIMEOUT_S)
    wordcount.check_exact()
