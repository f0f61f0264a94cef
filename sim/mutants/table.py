"""The table of mutants: every rule that a published system broke, as one changed line of the core.

A mutant names its rule by the words of the rule. The scenario and the seed of a mutant are known to
notice it. The same seed passes with the unchanged core.
"""

from sim.mutants import control as mutants_control
from sim.mutants import data_plane as mutants_data_plane
from sim.mutants.rules import RULES, Mutant

MUTANTS: dict[str, Mutant] = {mutant.name: mutant for mutant in (*mutants_data_plane.MUTANTS, *mutants_control.MUTANTS)}
CANARY = "published-before-commit"  # runs in every test run, and must fail

__all__ = ["CANARY", "MUTANTS", "RULES", "Mutant"]
