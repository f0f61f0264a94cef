import os
import subprocess
import sys

import pytest

from penstock.contract.keygroups import Range, share_size
from sim.kernel.forks import in_a_fork
from sim.mutants.patching import Patch, change, install, patched_source

PATCH = Patch(
    "penstock.contract.ids",
    "NO_EPOCH = Epoch(0)  # no checkpoint yet; the first one is 1",
    "NO_EPOCH = Epoch(7)",
)


def test_one_line_is_replaced_with_its_indentation() -> None:
    patch = Patch("m", "return 1", "return 2")
    assert patched_source("def f():\n    return 1\n", patch) == "def f():\n    return 2\n"


@pytest.mark.parametrize("source", ["a = 2\n", "a = 1\na = 1\n"])
def test_a_line_that_is_not_there_exactly_once_is_refused(source: str) -> None:
    with pytest.raises(AssertionError, match="lines 'a = 1'"):
        patched_source(source, Patch("m", "a = 1", "a = 3"))


def test_an_imported_module_cannot_be_patched_any_more() -> None:
    with pytest.raises(AssertionError, match="imported already"):
        install(Patch("sim.mutants.patching", "a", "b"))


def test_the_patch_holds_in_its_process_and_nowhere_else() -> None:
    script = (
        "import sys; from sim.mutants import patching\n"
        "for name in [m for m in sys.modules if m.startswith('penstock.contract')]:\n"
        "    del sys.modules[name]\n"
        f"patching.install(patching.Patch({PATCH.module!r}, {PATCH.line!r}, {PATCH.mutated!r}))\n"
        "from penstock.contract.ids import NO_EPOCH\n"
        "print(NO_EPOCH)\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "7\n"
    from penstock.contract.ids import NO_EPOCH

    assert NO_EPOCH == 0


GROUPS = "penstock.contract.keygroups"
CHANGES = (
    Patch(GROUPS, "return sum(len(r) for r in share)", "return 1 + sum(len(r) for r in share)"),
    Patch(GROUPS, "return self.stop - self.start", "return self.stop"),
)


# The process of the tests may have threads; the copy uses none of what they hold.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_functions_are_changed_for_all_who_hold_them_in_their_process_only() -> None:
    share = (Range(2, 5),)

    def changed() -> int:
        change(CHANGES)
        return share_size(share)

    assert in_a_fork(changed) == 6
    assert share_size(share) == 3


def test_a_line_outside_every_function_is_not_changed_in_place() -> None:
    with pytest.raises(AssertionError, match=r"no function of penstock\.contract\.ids"):
        change((PATCH,))


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_that_dies_is_an_error() -> None:
    with pytest.raises(EOFError):
        in_a_fork(lambda: os._exit(3))
