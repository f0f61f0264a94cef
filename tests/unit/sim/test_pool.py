"""Pools of immutable parts: equal parts are one object, and keeping a part changes none."""

from penstock.contract.ids import SplitId, StageIndex
from penstock.contract.manifest import SplitState
from penstock.contract.plan import first_assignment
from penstock.model.elements import Data
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskCore, TaskSetup
from sim.models.pool import Cores, Pool, copied, structure
from sim.workload import Shape, make_plan

PLAN, _ = make_plan("count", Shape(groups=2))
SPLIT = SplitId("s0")
TABLE = first_assignment(PLAN, 1, {StageIndex(0): (SPLIT,)})
SOURCE = next(t for t in TABLE.tasks() if t.stage == 0)


def source() -> TaskCore:
    first = (SplitState(SPLIT, "", 0),)
    core = TaskCore(TaskSetup(PLAN, SOURCE, TABLE, 1 << 20, first_splits=first))
    core.step(ev.Build(), 0.0)
    return core


def test_equal_values_are_one_object() -> None:
    pool = Pool()
    assert pool.keep((1, (2, 3))) is pool.keep((1, (2, 3)))


def test_a_copy_stands_where_its_original_does_and_goes_its_own_way() -> None:
    core = source()
    copy = copied(core, {})
    assert structure(copy) == structure(core)
    copy.step(ev.Loaded(TABLE.version), 0.0)
    assert structure(copy) != structure(core)
    assert structure(core) == structure(source())


def test_a_copy_keeps_aliases() -> None:
    copy = copied(source(), {})
    assert copy.state.splits is not None
    assert copy.rescale.state is copy.state
    assert copy.state.splits.time is copy.state.time


def test_a_step_that_was_taken_is_known_and_never_changes_the_core_before_it() -> None:
    cores = Cores()
    first = cores.keep(source())
    before = structure(first)
    loaded, actions = cores.step(first, ev.Loaded(TABLE.version))
    assert structure(first) == before
    assert actions == (ev.ReportReady(),)
    again, _ = cores.step(cores.keep(source()), ev.Loaded(TABLE.version))
    assert again is loaded
    running, _ = cores.step(loaded, ev.Started())
    read = ev.RowsRead(SPLIT, Data(((1, SPLIT, 0),), 1, 1))
    assert cores.step(running, read) == cores.step(running, read)
