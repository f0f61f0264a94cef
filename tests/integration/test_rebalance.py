"""Key groups move by load on a running job under load: keyed state and its order stay exact."""

import os
import signal
from pathlib import Path

import pyarrow as pa

from penstock.contract.keygroups import first_shares, groups_of
from penstock.model.keys import KeyCodec
from penstock.supervisor import LocalCluster
from tests.integration.local_job import after_more, finish, sound, started, until, wait_until
from tests.integration.test_schemes import EVEN, FILES, KEYS, ROWS, make_input, settings, write_job, written

GROUPS = 256
BUSY = FILES * KEYS - 3  # so many keys belong to one of two workers at first


def skewed_keys() -> list[int]:
    """Return keys of which the first worker has ``BUSY`` and the second worker the others."""
    _, groups = KeyCodec((pa.int64(),), GROUPS).hashed([pa.array(range(1_000))])
    first, second = (set(groups_of(share)) for share in first_shares(GROUPS, 2))
    of_first = [key for key in range(1_000) if groups[key] in first]
    of_second = [key for key in range(1_000) if groups[key] in second]
    return [*of_first[:BUSY], *of_second[: FILES * KEYS - BUSY]]


def balanced(cluster: LocalCluster) -> str:
    asked = cluster.rebalance()
    wait_until(lambda: cluster.answer(asked.id).ok is not None)
    answer = cluster.answer(asked.id)
    assert answer.ok, answer.text
    return answer.text


def test_key_groups_move_by_load_with_a_killed_engine_between_two_requests(tmp_path: Path) -> None:
    made = make_input(tmp_path / "in", skewed_keys())
    write_job(tmp_path)
    with started(settings(tmp_path, 100, EVEN)) as cluster:
        after_more(cluster)
        text = balanced(cluster)
        before = until(cluster, sound)
        assert before.balance is not None
        (counts,) = before.balance.steps
        assert (text, before.version) == (str(counts), 2)
        assert counts.step == "counts"
        assert 0 < counts.moved < BUSY
        assert counts.rows / 2 <= counts.after < counts.before
        engine = before.workers[1].engine_pid
        assert engine is not None
        os.kill(engine, signal.SIGKILL)
        after = until(cluster, lambda s: sound(s) and s.attempt > before.attempt)
        assert (after.balance, after.version) == (before.balance, 2)  # the table of the checkpoint has the owners
        balanced(cluster)
        again = after_more(cluster).balance
        assert again is not None
        assert again.nonce == before.balance.nonce + 1
        assert all(step.after <= step.before < counts.before / counts.rows * step.rows for step in again.steps)
        cluster.stop()
        assert cluster.wait(120.0) is not None
    assert 0 < sum(map(len, written(tmp_path / "out").values())) < FILES * ROWS  # there was input all the time
    with started(settings(tmp_path, 0, EVEN)) as rest:
        finish(rest)
    assert written(tmp_path / "out") == {key: list(enumerate(rows, start=1)) for key, rows in made.items()}
