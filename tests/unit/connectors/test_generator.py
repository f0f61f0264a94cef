import itertools
import json
from collections import Counter

import numpy as np
import pytest

from penstock.base import limits
from penstock.base.errors import ConfigError, StateError
from penstock.base.values import replace
from penstock.connectors import generator
from penstock.connectors.generator import (
    WordBlock,
    WordReader,
    WordSource,
    block_rows,
    draw,
)
from penstock.connectors.rate_limit import RateLimit
from penstock.contract.connectors import WordsSpec
from penstock.contract.manifest import SplitState
from penstock.ports import PreparedSource

SPEC = WordsSpec(splits=2, rows=150_000, seed=3, payload=5, keys=50)


def words(reader: WordReader, batch_rows: int = 8192) -> list[str]:
    found: list[str] = []
    while (read := reader.read(batch_rows)) is not None:
        assert read.offset == len(found)
        found += read.batch.column("word").to_pylist()
    return found


def test_words_have_their_size_and_are_all_different() -> None:
    block = WordBlock(SPEC)
    made = block.words.to_pylist()
    assert len(set(made)) == SPEC.keys
    assert {len(w) for w in made} == {SPEC.payload}


def test_words_are_drawn_before_the_first_split_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    source = WordSource(WordsSpec(keys=100))
    assert isinstance(source, PreparedSource)
    source.prepare()
    monkeypatch.delattr(generator, "WordBlock")  # nobody draws again
    assert source.open(source.splits()[0]).read(10) is not None


def test_a_split_is_the_same_from_any_offset() -> None:
    source = WordSource(SPEC)
    whole = words(source.open(source.splits()[1]))
    assert len(whole) == SPEC.rows
    first = source.splits()[1]
    for offset in (1, 65_535, 149_999):
        reader = WordSource(SPEC).open(SplitState(first.split, first.spec, offset))
        read = reader.read(10)
        assert read is not None
        assert read.batch.column("word").to_pylist() == whole[offset : offset + 10]


@pytest.mark.parametrize("batch_rows", [1, 3, 10])
def test_reads_that_it_puts_together_itself_are_the_same_rows(batch_rows: int) -> None:
    spec = replace(SPEC, rows=70_000, payload=33 if batch_rows == 3 else 5)
    source = WordSource(spec)
    first = source.splits()[1]  # it begins in the middle of the block, and goes round
    expected, reader = words(source.open(first)), source.open(first)
    found: list[str] = []
    while (read := reader.gather(batch_rows, 4000 // batch_rows)) is not None:
        read.batch.validate(full=True)
        assert read.offset == len(found)
        assert read.batch.num_rows <= 4000
        found += read.batch.column("word").to_pylist()
    assert found == expected
    assert reader.state().finished


def test_what_a_split_sends_can_be_counted_without_it() -> None:
    source = WordSource(SPEC)
    block = WordBlock(SPEC)
    for index, state in enumerate(source.splits()):
        counted = block.counts(index, 150_000)
        found = Counter(words(source.open(state)))
        assert [found[w] for w in block.words.to_pylist()] == counted.tolist()


def test_a_block_of_very_many_words_is_bounded_and_has_each_once() -> None:
    assert block_rows(50) == 65_536
    assert block_rows(10_000) == 160_000
    assert block_rows(1_000_000) == 4_194_304
    keys = 4_200_000
    assert block_rows(keys) == keys
    times = np.bincount(draw(replace(SPEC, keys=keys)), minlength=keys)
    assert times.min() == times.max() == 1


@pytest.mark.parametrize(("symbols", "ends"), [(2, "ab"), (26, "az"), (94, "!~")])
def test_words_use_the_given_number_of_symbols(symbols: int, ends: str) -> None:
    spec = replace(SPEC, symbols=symbols, payload=40)
    made = WordBlock(spec).words.to_pylist()
    assert len(set(made)) == spec.keys
    found = set("".join(made))
    assert (min(found), max(found), len(found)) == (*ends, symbols)


def test_a_checkpoint_older_than_the_option_symbols_can_be_continued() -> None:
    state = WordSource(SPEC).splits()[0]
    spec = json.loads(state.spec)
    del spec["symbols"]
    old = replace(state, spec=json.dumps(spec))
    assert words(WordSource(SPEC).open(old)) == words(WordSource(SPEC).open(state))
    with pytest.raises(StateError, match="the checkpoint has symbols=26, the job 9"):
        WordSource(replace(SPEC, symbols=9)).open(old)


def test_zipf_has_a_hot_word() -> None:
    counts = WordBlock(replace(SPEC, distribution="zipf")).counts(0, 100_000)
    assert counts[0] > 5 * counts[10] > 5 * counts[49] / 2 > 0


def test_a_rate_sends_due_rows_and_later_the_rows_that_were_blocked() -> None:
    now = [100.0]
    block = WordBlock(replace(SPEC, rate=1000, rows=None))
    state = WordSource(SPEC).splits()[0]
    reader = WordReader(block, 0, state, RateLimit(1000, lambda: now[0]))
    assert reader.read(8192) is None
    assert limits.PACE_WAIT_S <= reader.wait_s() <= limits.PACE_REST_MAX_S + 1e-9
    now[0] += 0.25
    read = reader.read(8192)
    assert read is not None
    assert read.batch.num_rows == 250
    now[0] += 60  # held back for a minute
    owed = sum(r.batch.num_rows for r in iter(lambda: reader.read(8192), None))
    assert owed > 60_000 - 8192
    waited = reader.wait_s()
    now[0] += waited
    rest = reader.read(8192)
    assert rest is not None
    expected = 60_000 + 1000 * waited
    assert owed + rest.batch.num_rows == pytest.approx(expected, abs=1)
    assert reader.due_ns(1000) == 101_000_000_000


def test_a_paced_split_is_not_read_again_for_a_few_rows() -> None:
    now = [100.0]
    state = WordSource(SPEC).splits()[0]
    rate = 1_000_000
    block = WordBlock(replace(SPEC, rate=rate, rows=None))
    reader = WordReader(block, 0, state, RateLimit(rate, lambda: now[0]))
    now[0] += limits.PACE_WAIT_S
    assert reader.read(8192) is not None
    now[0] += limits.PACE_WAIT_S / 4  # as long as the rows just read took: others are due
    assert reader.read(8192) is None
    assert reader.wait_s() == pytest.approx(limits.PACE_WAIT_S * 3 / 4)
    now[0] += reader.wait_s()
    read = reader.read(8192)
    assert read is not None
    assert read.batch.num_rows == pytest.approx(rate * limits.PACE_WAIT_S, abs=1)
    now[0] += 0.01  # a whole read is due: no moment to wait for
    assert reader.read(8192) is not None


def test_a_slow_machine_gets_paced_rows_in_fewer_reads() -> None:
    now = [100.0]
    rate, most = 1_000_000, 100_000
    pace = RateLimit(rate, lambda: now[0])
    now[0] += 2 * limits.PACE_WAIT_S
    pace.sent(pace.allow(most))
    now[0] += limits.PACE_WAIT_MAX_S / 2  # so long the work took: nothing yet, though a moment has passed
    assert pace.allow(most) == 0
    now[0] += pace.wait_s()
    assert pace.allow(most) == pytest.approx(rate * limits.PACE_WAIT_MAX_S, abs=2)
    pace.sent(pace.allow(most))
    now[0] += 0.2  # it was held back: what is owed comes at once
    assert pace.allow(most) == most


def test_a_reader_that_keeps_coming_late_for_paced_rows_gets_fewer_reads_too() -> None:
    now = [100.0]
    pace = RateLimit(1_000_000, lambda: now[0])
    late_s, works_s = limits.PACE_WAIT_S, limits.PACE_WAIT_S / 2
    for _ in range(5):
        now[0] += pace.wait_s() + late_s  # the thread had to wait for a processor
        pace.sent(pace.allow(100_000))
        now[0] += works_s
    assert pace.wait_s() == pytest.approx(2 * (late_s + works_s) - works_s)


@pytest.mark.parametrize("rate", [500, 8_000, 32_000])
def test_the_wait_for_a_slow_pace_is_not_taken_for_work(rate: int) -> None:
    now = [100.0]
    pace = RateLimit(rate, lambda: now[0])
    beat_s = min(limits.PACE_READ_ROWS / rate, limits.PACE_REST_MAX_S)
    read_at = []
    for _ in range(20):
        now[0] += pace.wait_s() + 1e-9
        read_at.append(now[0])
        pace.sent(pace.allow(8192))
        now[0] += beat_s / 10  # worked
    gaps = [after - before for before, after in itertools.pairwise(read_at)]
    assert max(gaps) == pytest.approx(beat_s, rel=0.01)


def test_rows_that_are_due_need_no_wait() -> None:
    now = [100.0]
    pace = RateLimit(1_000_000, lambda: now[0])
    now[0] += pace.wait_s() / 2
    assert pace.wait_s() >= limits.PACE_WAIT_S / 4
    now[0] += limits.PACE_WAIT_S
    assert 0 < pace.wait_s() < 1e-5


def test_a_single_hitch_makes_no_long_rest() -> None:
    now = [100.0]
    pace = RateLimit(1_000_000, lambda: now[0])
    for hitch_s in (0.0, 0.0, 0.0, 0.02, 0.0, 0.02):
        now[0] += pace.wait_s() + hitch_s
        pace.sent(pace.allow(100_000))
        assert pace.wait_s() == pytest.approx(limits.PACE_WAIT_S)


def test_time_that_a_task_rests_is_no_work_on_paced_rows() -> None:
    now = [100.0]
    pace = RateLimit(1_000_000, lambda: now[0])
    for _ in range(3):  # a task that asks how long to rest, and then for rows
        now[0] += pace.wait_s()
        pace.sent(pace.allow(100_000))
        assert pace.wait_s() == pytest.approx(limits.PACE_WAIT_S)


def test_rows_of_a_slow_pace_are_read_a_handful_at_a_time_by_all_splits_at_once() -> None:
    now = [100.0]
    first = RateLimit(200, lambda: now[0])
    now[0] += 0.003
    second = RateLimit(200, lambda: now[0])
    rows = []
    for _ in range(100):
        assert first.wait_s() == pytest.approx(second.wait_s())
        now[0] += first.wait_s() + 1e-9
        rows.append(first.allow(8192))
        first.sent(rows[-1])
        second.sent(second.allow(8192))
    assert sum(rows) == pytest.approx(200 * 100 * limits.PACE_REST_MAX_S, abs=4)
    assert min(rows) >= 3


def test_a_generator_ends_only_when_it_has_a_number_of_rows() -> None:
    source = WordSource(SPEC)
    reader = source.open(source.splits()[0])
    assert source.bounded
    words(reader)
    assert reader.state().finished
    assert not WordSource(replace(SPEC, rows=None)).bounded
    assert WordSource(replace(SPEC, rows=0)).splits()[0].finished


def test_a_checkpoint_of_other_words_is_refused() -> None:
    state = WordSource(SPEC).splits()[0]
    with pytest.raises(StateError, match="the checkpoint has seed=3, the job 4"):
        WordSource(replace(SPEC, seed=4)).open(state)
    WordSource(replace(SPEC, rate=7)).open(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distribution": "normal"}, "'normal' is not uniform or zipf"),
        ({"payload": 1, "keys": 27}, "1 letters of 26 do not make 27 words"),
        ({"payload": 3, "keys": 9, "symbols": 2}, "3 letters of 2 do not make 9 words"),
        ({"symbols": 95}, "symbols 95 is not in 2 to 94"),
        ({"payload": 100_000}, "take fewer or shorter ones"),
    ],
)
def test_an_impossible_spec_is_refused_with_the_reason(change: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WordSource(replace(WordsSpec(), **change))  # type: ignore[arg-type]
