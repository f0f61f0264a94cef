"""A fault of the engine that runs under seeds must notice."""

from dataclasses import dataclass

from sim.mutants.patching import Patch


@dataclass(frozen=True, slots=True)
class EngineMutant:
    """The engine with one fault. ``scenario`` has the job that notices it; ``seed`` is tried first."""

    name: str
    fault: str
    patches: tuple[Patch, ...]
    scenario: str = "chaos"
    seed: int = 0


def line(module: str, line: str, mutated: str) -> tuple[Patch, ...]:
    """Return the patch of one line of a module of ``penstock``."""
    return (Patch(f"penstock.{module}", line, mutated),)
