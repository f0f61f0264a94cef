"""The code that ships keeps its promises with files whatever happens at whichever call.

At every call of each scenario there is each fault: an error, a lost reply, the end of the process
or of the power, before and after. Then the process lives again, and the power fails once more.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.connectors.file_sink import ParquetSink
from penstock.contract.ids import Attempt, Epoch
from sim.files.call_hooks import CallFault, FileCall
from sim.files.mounted_files import Mount, MountedFiles
from sim.files.savepoint_scenario import Savepoints
from sim.files.storage_mutants import MUTANTS, StorageMutant
from sim.files.storage_runs import MakeScenario, every_call
from sim.files.storage_scenarios import JOB, TASK, Checkpoints, StagedOutput, published, tried
from sim.files.virtual_disk import VirtualDisk
from sim.kernel.forks import in_a_fork
from sim.mutants.patching import replace_code

SCENARIOS = [Checkpoints, Savepoints, StagedOutput]
CALLS = {"open", "close", "read", "write", "fsync", "link", "unlink", "mkdir", "entries"}


@pytest.mark.parametrize("fault", list(CallFault), ids=lambda fault: fault.value)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_fault_at_any_call_breaks_a_promise(scenario: MakeScenario, fault: CallFault) -> None:
    hit = every_call(scenario, fault)
    assert {call.name for call in hit} >= CALLS


@pytest.mark.parametrize("fault", list(CallFault), ids=lambda fault: fault.value)
def test_output_is_published_once_where_links_are_missing(fault: CallFault) -> None:
    hit = every_call(StagedOutput, fault, links=False)
    assert "rename" in {call.name for call in hit}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_rule_that_is_taken_out_is_noticed(mutant: StorageMutant) -> None:
    def mutated() -> str:
        replace_code(import_module(mutant.module), *mutant.mutated())
        return mutant.noticed()

    noticed = in_a_fork(mutated)
    assert noticed.startswith(mutant.fault.value), noticed


class Meanwhile:
    """Does something before the ``index``-th call, once it is told to count."""

    def __init__(self, index: int, act: Callable[[], None]) -> None:
        self.left = index
        self.act = act
        self.counts = False

    def before(self, call: FileCall) -> None:
        if self.counts:
            self.left -= 1
            if self.left == -1:
                self.act()

    def after(self, call: FileCall) -> None:
        pass


@pytest.mark.parametrize("index", range(18))
@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("links", [False, True])
def test_a_publisher_with_an_old_view_accepts_what_another_has_published(
    index: int, *, forgets: bool, links: bool
) -> None:
    """Both publish one handle over the network; the other does all of it before a call of the first."""
    disk = VirtualDisk(links=links)
    two = MountedFiles(disk, Mount("two", network=True, staleness=1.0))
    other = ParquetSink("out", "/out", StagedOutput.SCHEMA, two)
    other.claim(JOB, fresh=True)
    writer = other.writer(TASK, Attempt(1))
    writer.write(pa.record_batch({"n": [1, 2]}))
    handle = writer.seal(Epoch(1), "name").finish()
    assert handle is not None

    def meanwhile() -> None:
        other.publisher.publish(handle, Epoch(1))
        if forgets:
            other.publisher.forget(handle)

    hook = Meanwhile(index, meanwhile)
    sink = ParquetSink(
        "out", "/out", StagedOutput.SCHEMA, MountedFiles(disk, Mount("one", network=True, staleness=1.0), hook)
    )
    sink.claim(JOB, fresh=True)
    hook.counts = True
    tried(lambda: sink.publisher.publish(handle, Epoch(1)))
    assert len(published(two, Path("/out"))) == 1
