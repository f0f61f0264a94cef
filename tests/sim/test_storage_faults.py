"""The code that ships keeps its promises with files whatever happens at whichever call.

At every call of each scenario there is each fault: an error, a lost reply, the end of the process
or of the power, before and after. Then the process lives again, and the power fails once more.
"""

from importlib import import_module

import pytest

from sim.files.call_hooks import CallFault
from sim.files.savepoint_scenario import Savepoints
from sim.files.storage_mutants import MUTANTS, StorageMutant
from sim.files.storage_runs import MakeScenario, every_call
from sim.files.storage_scenarios import Checkpoints, StagedOutput
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
