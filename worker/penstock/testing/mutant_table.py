"""Every rule that a published system broke, as one changed line that the simulation must notice."""

from dataclasses import dataclass

from penstock.testing.patching import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """One line of the core without its rule. ``scenario`` and ``seed`` are known to notice."""

    name: str
    rule: str
    patch: Patch
    scenario: str
    seed: int


MUTANTS: dict[str, Mutant] = {}
