"""Savepoints that earlier revisions wrote are restored, and their jobs go on exactly.

Each folder of ``old_savepoints`` was written once, by the revision that its README names, and is never
written again. It has the job's code, its whole input, the savepoint, and in ``written`` the rows that
were committed until the savepoint.
"""

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.test_command_line import penstock

SAVEPOINTS = Path(__file__).parent / "old_savepoints"
MINUTE = timedelta(minutes=1)
EPOCH = datetime.fromisoformat("1970-01-01")
Row = dict[str, Any]
Outputs = dict[str, list[Row]]


def accounts(rows: list[Row]) -> Outputs:
    """Compute the outputs of ``2026_11_accounts`` in plain Python."""
    of_account: dict[str, list[Row]] = defaultdict(list)
    outputs: Outputs = {"balances": [], "aggregates": [], "windows": []}
    for row in rows:
        seen = of_account[row["account"]]
        seen.append(row)
        outputs["balances"].append(balance(seen))
        outputs["aggregates"].append(aggregates(seen))
    for account, seen in of_account.items():
        outputs["windows"].extend({"account": account, **window} for window in windows(seen))
    return outputs


def balance(seen: list[Row]) -> Row:
    last = seen[-1]
    limits: Iterator[Decimal] = (row["limit"] for row in seen if row["limit"] is not None)
    return {
        "account": last["account"],
        "total": sum(row["amount"] for row in seen),
        "note": f"{last['account']}: {last['amount']}",
        "rate": 0.5 * len(seen),
        "limit": next(limits, None),
        "since": seen[0]["at"],
    }


def aggregates(seen: list[Row]) -> Row:
    amounts = [row["amount"] for row in seen]
    return {
        "account": seen[-1]["account"],
        "n": len(seen),
        "total": sum(amounts),
        "mean": sum(amounts) / len(amounts),
        "least": min(amounts),
        "most": max(row["at"] for row in seen),
        "last": amounts[-1],
    }


def windows(seen: list[Row]) -> Iterator[Row]:
    amounts: dict[datetime, list[int]] = defaultdict(list)
    for row in seen:
        amounts[row["at"].replace(second=0, microsecond=0)].append(row["amount"])
    for start, of_minute in amounts.items():
        yield {"window_start": start, "window_end": start + MINUTE, "n": len(of_minute), "total": sum(of_minute)}


def seen(rows: list[Row]) -> Outputs:
    """Compute the output of ``2026_11_seen`` in plain Python."""
    of_account: dict[str, list[Row]] = defaultdict(list)
    reports = []
    for row in rows:
        of_account[row["account"]].append(row)
        own = of_account[row["account"]]
        reports.append({"account": row["account"], "number": 100 + len(own), "state": state_text(own)})
    return {"reports": reports}


def state_text(seen: list[Row]) -> str:
    """Return what the text of the state is after the rows of an account."""
    amounts = [row["amount"] for row in seen]
    rests = [amount % 5 for amount in amounts]
    sizes = ["LARGE" if amount > 50 else "SMALL" for amount in amounts]
    now, rest, last = seen[-1], rests[-1], amounts[-1]
    labels = [f"{now['account']} {amount}" for amount in amounts if amount % 5 == 0]
    limits = [row["limit"] for row in seen if row["limit"] is not None]
    since = (seen[0]["at"] - EPOCH) // timedelta(microseconds=1)
    newest = dict(zip(rests, amounts, strict=True))
    single = [100 + len(seen), last % 100, 0.5 + sum(amount / 4 for amount in amounts), len(seen) % 2 == 0]
    single += [max(amounts), labels[-1] if labels else "none", None if rest == 1 else f"note {rest}", bytes([rest])]
    single += [str(limits[-1] if limits else None), sizes[-1], since, (rest, None if rest == 2 else str(rest))]
    single += [(last, "here")]
    several: list[Any] = [[amount % 1000 for amount in amounts[-3:]], sizes[-2:], amounts[-4:]]
    several += [sorted((str(each), rests.count(each)) for each in set(rests))]
    several += [[(each, newest[each], None if each == 3 else "there") for each in sorted(newest)]]
    several += [sorted(set(rests)), sorted(set(rests))]
    return f"{single} {several}"


KEPT: dict[str, tuple[str, Callable[[list[Row]], Outputs]]] = {
    "2026_11_accounts": ("old_accounts", accounts),
    "2026_11_seen": ("old_seen", seen),
}


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("kept", KEPT)
def test_a_job_goes_on_from_the_savepoint_of_an_earlier_revision(tmp_path: Path, kept: str, workers: int) -> None:
    module, expected = KEPT[kept]
    folder = tmp_path / kept
    shutil.copytree(SAVEPOINTS / kept, folder)
    job = job_file(folder, module, workers)

    done = penstock("run", str(job), "--dir", str(tmp_path / "state"), "--restore", str(folder / "savepoint"))

    assert done.returncode == 0, done.stderr
    rows = [row for file in sorted((folder / "input").iterdir()) for row in pq.read_table(file).to_pylist()]
    for name, wanted in expected(rows).items():
        before = pq.read_table(folder / "written" / f"{name}.parquet").to_pylist()
        after = pq.read_table(folder / "out" / name).to_pylist()
        assert 0 < len(after) < len(wanted)
        assert counted([*before, *after]) == counted(wanted), name


def test_each_kept_savepoint_is_restored() -> None:
    assert {each.name for each in SAVEPOINTS.iterdir() if each.is_dir()} == set(KEPT)


def job_file(folder: Path, module: str, workers: int) -> Path:
    """Write the job file of a kept savepoint, with the input of this folder."""
    parameters = {"input": str(folder / "input"), "output": str(folder / "out"), "rate": "0"}
    job = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": "kept"},
        "spec": {"replicas": workers, "job": {"entrypoint": f"{module}:job", "parameters": parameters}},
    }
    file = folder / "job.json"
    file.write_text(json.dumps(job))
    return file


def counted(rows: list[Row]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(sorted(row.items())) for row in rows)
