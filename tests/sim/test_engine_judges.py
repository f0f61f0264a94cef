"""The judges of the runs with real engines refuse made-up wrong runs."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.base.errors import StateError
from penstock.base.values import replace
from penstock.contract import control_messages as msg
from penstock.contract.codec import encode
from penstock.contract.ids import Attempt, BlobName, Epoch, JobUid, Ordinal, StageIndex, SwapId, Term
from penstock.contract.latest import Latest, Retained
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.contract.plan import first_assignment
from sim.files.call_hooks import FileCall
from sim.kernel.calls import ROOT_FILE
from sim.kernel.kernel import SimKernel, Violation
from sim.real_engine.checker import RealChecker
from sim.real_engine.file_faults import FileFaults
from sim.real_engine.jobs import counting, migrated, pushed, sided
from sim.real_engine.jobs.checked_job import CheckedJob, OutputPlace
from sim.real_engine.jobs.input_rows import START, Row
from sim.real_engine.world import EngineWorld
from sim.workload import Shape, make_plan

PLAN, _ = make_plan("count", Shape(groups=2))
TABLE = first_assignment(PLAN, 1, {StageIndex(0): ()})
OLDER, NEWER = BlobRef(BlobName("1-1-root"), "", 0), BlobRef(BlobName("1-2-root"), "", 0)
MEMBERS = BlobRef(BlobName("1-0-members"), "", 0)


class Files(dict[BlobName, bytes]):
    """Stands for the shared folders."""

    def get(self, ref: Any, default: Any = None) -> Any:
        """Read a file."""
        if ref.name not in self:
            raise StateError(f"{ref.name} is missing")
        return self[ref.name]

    def list_for_collection(self) -> list[BlobName]:
        """List all files."""
        return sorted(self)


def manifest(epoch: int) -> bytes:
    """Return a manifest without tasks."""
    return encode(RootManifest(JobUid("job"), Epoch(epoch), Term(1), Attempt(1), "checkpoint", 2, "", TABLE, ()))


def checker(job: CheckedJob) -> tuple[RealChecker, Files]:
    """Return a checker that has seen two checkpoints, and the files."""
    files = Files({OLDER.name: manifest(1), NEWER.name: manifest(2), MEMBERS.name: b""})
    made = RealChecker(
        SimKernel(0, lambda _: None), job, cast(Any, SimpleNamespace(job=files, get=files.get)), cast(Any, None)
    )
    first = replace(Latest(JobUid("job"), SwapId("s")), epoch=Epoch(1), root=OLDER, members=MEMBERS)
    made.swapped("latest", None, first)
    kept = (Retained(Epoch(1), OLDER), Retained(Epoch(2), NEWER))
    made.swapped("latest", first, replace(first, epoch=Epoch(2), root=NEWER, retained=kept))
    return made, files


@pytest.mark.parametrize("name", [OLDER.name, NEWER.name, MEMBERS.name])
def test_nothing_that_the_object_lists_may_go(name: BlobName) -> None:
    judge, files = checker(sided.SidedJob())
    judge.deleted(BlobName("1-1-state"))
    with pytest.raises(Violation, match="is listed"):
        judge.deleted(name)
    del files[name]  # by an engine, which asks nobody
    with pytest.raises(Violation, match="is listed, but"):
        judge.finish()


def test_a_file_that_nobody_lists_and_no_later_epoch_collects_is_left() -> None:
    judge, files = checker(sided.SidedJob())
    owner, later = BlobName("staged/out/_staging/OWNER.json"), BlobName("1-3-life-7.state")
    files.update(dict.fromkeys((ROOT_FILE, owner, later), b""))
    assert judge.left() == [], "the checkpoint of epoch 3 will list or collect its file"
    files.update(dict.fromkeys((BlobName("1-2-life-6.state"), BlobName("ROOT.1")), b""))
    assert judge.left() == ["1-2-life-6.state", "ROOT.1"]


@pytest.mark.parametrize("name", ["link", "rename"])
def test_a_file_of_output_is_judged_when_it_gets_its_name(name: str) -> None:
    judge, _ = checker(sided.SidedJob())
    scheduler = SimpleNamespace(current=SimpleNamespace(number=1), point=lambda: None)
    host, world = SimpleNamespace(judge=judge, scheduler=scheduler), cast(Any, EngineWorld)
    host.object_created = partial(world.object_created, host)
    host.file_named = partial(world.file_named, host)
    faults = FileFaults(cast(Any, host), Random(0), lambda: None)
    for path in ("/output/seen/2-seen.parquet", "/output/seen/_staging/3-seen.parquet", "/storage/job/3-seen.parquet"):
        faults.after(FileCall("worker", name, path))
    with pytest.raises(Violation, match="before it is committed"):
        faults.after(FileCall("worker", name, "/output/seen/3-seen.parquet"))


def test_code_that_raises_is_noticed_though_another_attempt_follows() -> None:
    judge, _ = checker(sided.SidedJob())
    judge.reported(Ordinal(0), msg.Broken(Attempt(1), "a stream broke"))
    with pytest.raises(Violation, match="KeyError"):
        judge.reported(Ordinal(0), msg.Broken(Attempt(1), "KeyError: 7", failures=1))


def counted(rows: list[Row]) -> list[Row]:
    """Number the rows of each word."""
    seen: Counter[str] = Counter()
    found: list[Row] = []
    for row in rows:
        seen[row["word"]] += 1
        found.append({**row, "n": seen[row["word"]]})
    return found


def outputs_of_sided() -> dict[str, list[Row]]:
    """Return a right output of the job with a side table."""
    return {"seen": [{**row, "table": ""} for row in counted(sided.INPUT.all_rows())]}


def outputs_of_pushed() -> dict[str, list[Row]]:
    """Return a right output of the job of pushed rows."""
    rows = pushed.SENT.all_rows()
    return {"ids": rows, "counts": counted(rows)}


def outputs_of_migrated(rows: list[Row] | None = None) -> dict[str, list[Row]]:
    """Return a right output of the job that is not converted, but for the order of its rows."""
    ids: dict[str, list[int]] = {}
    found: list[Row] = []
    for row in migrated.INPUT.all_rows() if rows is None else rows:
        own = ids.setdefault(row["word"], [])
        own.append(row["id"])
        last = sum(own[-migrated.LAST :])
        found.append({**row, "n": len(own), "total": sum(own), "last": last, "converted": 0})
    return {"sums": found}


SIZE = counting.Size(files=2, rows=60, rate=100, queued=3)


def outputs_of_counting() -> dict[str, list[Row]]:
    """Return a right output of the job that counts, whose windows are emitted word by word."""
    rows = SIZE.input().all_rows()
    ids, windows = Counter[str](), dict[tuple[datetime, str], list[int]]()
    counts: list[Row] = []
    for row in counted(rows):
        ids[row["word"]] += row["id"]
        counts.append({"word": row["word"], "n": row["n"], "ids": ids[row["word"]]})
        window = START + (row["at"] - START) // counting.WINDOW * counting.WINDOW
        windows.setdefault((window, row["word"]), []).append(row["id"])
    totals: list[Row] = []
    sums: dict[datetime, list[int]] = {}
    for (window, _), own in windows.items():
        sums[window] = [a + b for a, b in zip(sums.get(window, [0, 0, 0]), (1, len(own), sum(own)), strict=True)]
        totals.append({"window_start": window, **dict(zip(("words", "rows", "ids"), sums[window], strict=True))})
    queue: list[Row] = [{"id": number} for _ in range(counting.QUEUES) for number in range(SIZE.queued)]
    return {"counts": counts, "totals": totals, "queue": queue}


@pytest.mark.parametrize(
    ("job", "right"),
    [
        (counting.CountingJob(SIZE), outputs_of_counting),
        (sided.SidedJob(), outputs_of_sided),
        (pushed.PushedJob(), outputs_of_pushed),
        (migrated.MigratedJob(), outputs_of_migrated),
    ],
    ids=["counting", "sided", "pushed", "migrated"],
)
def test_a_right_output_passes(job: CheckedJob, right: Callable[[], Mapping[str, list[Row]]]) -> None:
    job.check_output(right())


def test_a_row_in_the_place_of_another_of_its_word_is_noticed() -> None:
    rows = outputs_of_sided()["seen"]
    one, other = [at for at, row in enumerate(rows) if row["word"] == "w0"][:2]
    rows[other] = {**rows[other], "id": rows[one]["id"]}
    with pytest.raises(Violation, match="1 rows are missing, 1 are too many"):
        sided.SidedJob().check_output({"seen": rows})


def test_a_count_that_has_another_row_of_its_word_is_noticed() -> None:
    job, right = counting.CountingJob(SIZE), outputs_of_counting()
    at = [at for at, row in enumerate(right["counts"]) if row["word"] == "w0"][1]
    wrong: list[Row] = [
        {**row, "ids": row["ids"] - 7 * (n >= at and row["word"] == "w0")} for n, row in enumerate(right["counts"])
    ]
    with pytest.raises(Violation, match="counts: rows: 1 rows are missing, 1 are too many"):
        job.check_output({**right, "counts": wrong})
    first, second = (n for n, row in enumerate(right["counts"]) if row["word"] == "w0" and n <= at)
    early = right["counts"].copy()
    early[first] = {**early[first], "ids": early[second]["ids"] - early[first]["ids"]}
    with pytest.raises(Violation, match="comes behind"):
        job.check_output({**right, "counts": early})


def test_a_window_that_has_another_row_is_noticed() -> None:
    job, right = counting.CountingJob(SIZE), outputs_of_counting()
    right["totals"][-1] = {**right["totals"][-1], "ids": right["totals"][-1]["ids"] + 1}
    with pytest.raises(Violation, match="totals: sums of numbers"):
        job.check_output(right)
    job, right = counting.CountingJob(SIZE, OutputPlace.TABLE), outputs_of_counting()
    job.check_output(right)
    right["counts"].append({**right["counts"][-1], "ids": 0})
    with pytest.raises(Violation, match="counts: sums of numbers"):
        job.check_output(right)


def test_rows_of_a_file_in_another_order_are_noticed() -> None:
    rows = outputs_of_sided()["seen"]
    one, other = [at for at, row in enumerate(rows) if row["word"] == "w0"][:2]
    rows[one], rows[other] = {**rows[one], "id": rows[other]["id"]}, {**rows[other], "id": rows[one]["id"]}
    with pytest.raises(Violation, match="comes behind"):
        sided.SidedJob().check_output({"seen": rows})
    with pytest.raises(Violation, match="comes behind"):
        migrated.MigratedJob().check_output(outputs_of_migrated(migrated.INPUT.all_rows()[::-1]))
    found = outputs_of_pushed()
    with pytest.raises(Violation, match="comes behind"):
        pushed.PushedJob().check_output({**found, "ids": found["ids"][::-1]})
