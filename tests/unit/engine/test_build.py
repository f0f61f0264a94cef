"""From a job to the parts of its tasks: bounds on splits, who inherits output, who asks for a first checkpoint."""

from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import ConfigError, StorageError
from penstock.base.limits import CONTROL_MESSAGE_BYTES_MAX, SPLITS_BYTES_MAX, SPLITS_MAX
from penstock.cluster.link import framed
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.connectors.parquet_source import FileIdentity
from penstock.contract.control_messages import Splits, StageSplits
from penstock.contract.ids import Attempt, Epoch, Incarnation, JobUid, Ordinal, SplitId, StageIndex
from penstock.contract.manifest import Origin, SplitState
from penstock.contract.plan import first_assignment
from penstock.contract.trust import OF_ONE_USER
from penstock.engine.build import JobParts, check_splits
from penstock.graph import load_job
from penstock.protocol.engine.engine_messages import MakeTasks
from penstock.transport.exchange import Identity

NAMES = {StageIndex(0): "lines", StageIndex(2): "words"}


def splits_of(stage: int, count: int, spec: str) -> StageSplits:
    made = (SplitState(SplitId(f"part-{n:05d}.parquet"), spec, 0) for n in range(count))
    return StageSplits(StageIndex(stage), tuple(made))


def test_as_many_files_as_are_allowed_fit_a_message() -> None:
    spec = FileIdentity("part-00000-0b1c.parquet", 12_345_678_901, 1_234_567_890, "0" * 32, "", "0" * 16)
    found = (splits_of(0, SPLITS_MAX, spec.as_json()),)
    check_splits(found, NAMES)
    head, body = framed(Splits(Attempt(1), found, "f" * 64))
    assert len(head) + len(body) < CONTROL_MESSAGE_BYTES_MAX


def test_more_splits_are_refused_with_the_source_that_has_most() -> None:
    found = (splits_of(0, SPLITS_MAX, "{}"), splits_of(2, 1, "{}"))
    with pytest.raises(ConfigError, match=r"'lines' has 40,000 splits .* may have 40,000 in all"):
        check_splits(found, NAMES)
    check_splits((splits_of(2, 1, "{}"),), NAMES)
    check_splits((), {})


def test_descriptions_that_do_not_fit_are_refused() -> None:
    found = (splits_of(0, 2, "x" * (SPLITS_BYTES_MAX // 2)),)
    with pytest.raises(ConfigError, match=f"'lines' .*{SPLITS_BYTES_MAX:,} are possible in all"):
        check_splits(found, NAMES)


JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: plain}}
spec:
  job:
    graph:
      steps:
        - name: words
          source: {{generator: {{rows: 10}}}}
        - name: output
          sink: {{parquet: {{path: {output}}}}}
"""


def parts_of(job: str, folder: Path) -> JobParts:
    file = folder / "job.yaml"
    file.write_text(job)
    identity = Identity(JobUid("child"), Ordinal(0), Incarnation("life"))
    return JobParts(load_job(str(file), ConnectorInspector()), identity, folder)


@pytest.fixture
def parts(tmp_path: Path) -> Any:
    return parts_of(JOB.format(output=tmp_path / "out"), tmp_path)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("{generator: {rows: 10}}", "{kafka: {bootstrapServers: b, topic: t, startup: yesterday}, COLUMNS}", "words"),
        ("{parquet: {path: OUT}}", "{kafka: {bootstrapServers: b, topic: t, keyColumn: wrod}}", "output"),
    ],
)
def test_an_option_that_does_not_fit_is_refused_with_its_step(tmp_path: Path, was: str, now: str, told: str) -> None:
    columns = "columns: [{name: word, type: string}]"
    job = JOB.format(output="OUT").replace(was, now.replace("COLUMNS", columns))
    with pytest.raises(ConfigError, match=rf"^step '{told}': kafka s"):
        parts_of(job, tmp_path)


class Sink:
    """Notes how it is taken."""

    guarantee = "exactly-once"
    publisher = None

    def __init__(self) -> None:
        self.taken: list[tuple[object, ...]] = []

    def claim(self, job_uid: str, fresh: bool) -> None:
        self.taken.append(("claim", job_uid, fresh))

    def inherit(self, job_uid: str, parent: str, epoch: Epoch) -> None:
        self.taken.append(("inherit", job_uid, parent, epoch))

    def sweep(self, attempt: Attempt) -> None:
        self.taken.append(("sweep", attempt))

    def writer(self, *_: object) -> None:
        """Nothing is written."""

    def close(self) -> None:
        """Nothing is open."""


def test_a_job_that_begins_from_the_savepoint_of_another_inherits_its_output(parts: Any) -> None:
    sink = parts._sinks["output"] = Sink()
    parts.claim(fresh=True, origin=Origin(JobUid("parent"), Epoch(40)))
    parts.claim(fresh=False)
    assert sink.taken == [("inherit", "child", "parent", 40), ("claim", "child", False)]


class BrokenSink(Sink):
    """Cannot remove what is staged."""

    def sweep(self, attempt: Attempt) -> None:
        super().sweep(attempt)
        raise StorageError("input/output error")


@pytest.mark.parametrize("broken", ["first", "second"])
def test_a_sink_that_cannot_be_swept_keeps_no_other_one_from_it(parts: Any, broken: str) -> None:
    sinks = {name: BrokenSink() if name == broken else Sink() for name in ("first", "second")}
    parts._sinks = sinks
    with pytest.raises(StorageError, match="input/output error"):
        parts.sweep(Attempt(3))
    assert [sink.taken for sink in sinks.values()] == [[("sweep", 3)]] * 2


@pytest.mark.parametrize("joining", [False, True])
def test_only_tasks_that_begin_a_job_ask_for_its_first_checkpoint(parts: Any, joining: bool) -> None:
    parts.listen(lambda: None, OF_ONE_USER)
    splits = parts.first_splits([StageIndex(0)])
    table = first_assignment(parts.plan, 1, {group.stage: tuple(s.split for s in group.splits) for group in splits})
    (task,) = table.tasks()
    made = parts.parts(task, MakeTasks((task,), table, None, splits, joining=joining), Attempt(1))
    assert (made.sinks["output"]._on_first is None) is joining
