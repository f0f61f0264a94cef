"""Ten thousand altered messages of Arrow, through every way by which batches come in.

``make fuzz`` reads a million. A failure prints the command that repeats it.
"""

from pathlib import Path

import pytest

from tests import fuzz

MESSAGES = 5_000


def test_no_altered_message_gets_further_than_it_should() -> None:
    outcome = fuzz.run(first=0, messages=MESSAGES)
    assert not outcome.failed, outcome.failed
    assert sum(outcome.counts.values()) == MESSAGES
    for door in fuzz.DOORS:
        refused, taken = outcome.counts[f"{door}: refused"], outcome.counts[f"{door}: taken"]
        assert min(refused, taken) > MESSAGES / 500, outcome.counts


def test_a_process_that_dies_is_a_failure_with_its_seed() -> None:
    outcome = fuzz.run(first=fuzz.CRASH, messages=11)
    assert list(outcome.failed) == [fuzz.CRASH]
    assert outcome.failed[fuzz.CRASH].startswith("exit -11")
    assert sum(outcome.counts.values()) == 10


@pytest.mark.parametrize("seed", [118_549, 455_858, 539_793, 945_971])
def test_memory_that_a_message_only_claims_is_reserved_and_never_written(seed: int) -> None:
    """These are the messages among a million that asked for 4 GiB."""
    assert not fuzz.run(first=seed, messages=1).failed


@pytest.mark.parametrize("door", fuzz.DOORS)
def test_an_unaltered_message_is_taken(door: str, tmp_path: Path) -> None:
    for message in fuzz.DOORS[door].messages[:1]:
        rows = fuzz.DOORS[door].read(message, tmp_path)
        assert rows is not None
        fuzz.use(rows)
