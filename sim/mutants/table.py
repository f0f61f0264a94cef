"""Every rule that a published system broke, as one changed line that the simulation must notice.

A mutant names the rule by its words. Its scenario and seed are known to notice it; the same seed
passes on the core as it is.
"""

from sim.mutants import control as mutants_control
from sim.mutants import data_plane as mutants_data_plane
from sim.mutants.rules import RULES, Mutant

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant for mutant in (*mutants_data_plane.MUTANTS, *mutants_control.MUTANTS)
}
CANARY = "published-before-commit"  # runs in every test run, and must fail

__all__ = ["CANARY", "MUTANTS", "RULES", "Mutant"]
