"""Random runs with mixed faults. A test run has a sixth of the seeds of RANDOM, a long one has all of them."""

from collections.abc import Iterable

import pytest

from sim.running import Case, Result, add_up, run_all, seeds
from sim.scenario_table import FIRING, SCENARIOS
from tests.support.long_tests import count

pytestmark = pytest.mark.timeout(1200)  # a busy machine takes its time

RANDOM: dict[str, range] = {
    "chaos": range(60),
    "chaos-window": range(55),
    "chaos-dealt": range(20),
    "chaos-skewed": range(12),
    "chaos-diamond": range(20),
    "chaos-interval": range(30),
    "chaos-empty": range(25),
    "chaos-drained": range(25),
    "aimed": range(70),
    "aimed-window": range(30),
    "aimed-diamond": range(15),
    "aimed-interval": range(20),
    "storm": range(60),
    "storm-window": range(40),
    "storm-dealt": range(12),
    "storm-skewed": range(8),
    "storm-diamond": range(15),
    "storm-interval": range(20),
    **{f"{scenario}-{job}": range(8) for scenario in ("chaos", "aimed", "storm") for job in FIRING},
    "two-copiers": range(15),
    "churn": range(60),
    "churn-window": range(30),
}
BROKEN_ONCE = (
    ("aimed-sliding", 10052),  # a leader whose own engine was not there yet had to publish, and its keeper ended
    ("aimed-session", 10052),
    ("aimed-window", 194),  # the stream between two workers that left broke, and both waited for its end for ever
    ("aimed-cascade", 10131),  # a write arrived when its engine had ended, and the file stayed
)
RARE = (
    ("aimed", 14),  # a barrier waits for a snapshot
    ("chaos", 19),  # a stream broke after a stall
)
SHARE = count(6, 1)  # of the seeds, the first sixth
NAMED = tuple(name for name in SCENARIOS if name not in RANDOM)

# Rare states that a run of this size must have met; one that stays at 0 is not tested at all.
SOMETIMES = (
    "a barrier waits for a snapshot",
    "somebody waits for a snapshot",
    "began without state",
    "committed a checkpoint",
    "committed a final",
    "committed a rescale",
    "control message late",
    "control message lost",
    "effect applied after its caller gave up",
    "engine killed",
    "epoch aborted",
    "firings left for the next slice",
    "joiners admitted",
    "keeper killed",
    "keeper retired",
    "leader changed",
    "output published again",
    "process paused",
    "rescale by a rollback",
    "rescale settled",
    "rescale undone",
    "rollback to a checkpoint",
    "rows held for a new owner",
    "savepoint complete",
    "schemes changed",
    "balanced by load",
    "balance not needed",
    "sources begun in band",
    "stream broke after a stall",
    "stream broken",
    "stream held at its handshake",
    "stream refused at its handshake",
    "supervisor ended a lost worker",
    "supervisor removed a worker",
    "swap refused by a conflict",
    "write to a full disk",
    "writer died inside a write",
)


def complain(results: Iterable[Result]) -> str:
    return "\n".join(str(r) for r in results if r.rule)


def test_random_runs_break_no_promise_and_meet_every_rare_state() -> None:
    cases = [case for name, numbers in RANDOM.items() for case in seeds(name, numbers[: -(-len(numbers) // SHARE)])]
    cases += [case for case in (Case(name, seed) for name, seed in RARE) if case not in cases]
    assert len(cases) == count(135, 714), "RELIABILITY.md says how many there are"
    results = list(run_all(cases))
    bad = complain(results)
    assert not bad, bad
    met = add_up(r.sometimes for r in results)
    assert [state for state in SOMETIMES if not met.get(state)] == []


def test_a_seed_that_once_broke_a_promise_keeps_it() -> None:
    bad = complain(run_all([Case(name, seed) for name, seed in BROKEN_ONCE]))
    assert not bad, bad


def test_every_named_situation_ends_as_it_should() -> None:
    bad = complain(run_all([case for name in NAMED for case in seeds(name, range(count(1, 3)))]))
    assert not bad, bad


def test_a_failing_run_prints_the_command_that_repeats_it() -> None:
    result = Result(case=Case("chaos", 7), rule="E", text="E: rows are missing")
    assert "python -m sim --scenario chaos --seed 7" in str(result)
