"""Every mutant names lines that are really there, each exactly once."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from sim.mutants.patching import Patch, patched_source
from sim.mutants.table import MUTANTS

PATCHES = [
    pytest.param(patch, id=f"{mutant.name}-{number}")
    for mutant in MUTANTS.values()
    for number, patch in enumerate(mutant.patches)
]


@pytest.mark.parametrize("patch", PATCHES)
def test_the_line_of_a_mutant_is_in_its_module_once(patch: Patch) -> None:
    spec = find_spec(patch.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    assert patched_source(source, patch) != source
