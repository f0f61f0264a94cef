"""A scenario: a TOML file that says what runs, for how long, and what is looked at."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "scenarios"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that this scenario should reach: ``name`` of a result, and the bound."""

    name: str
    at_least: float | None = None
    at_most: float | None = None

    def met(self, results: dict[str, Any]) -> bool:
        """Say whether the result is within the bound; a missing one is not."""
        value = results.get(self.name)
        if value is None:
            return False
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        """Spell the bound."""
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """The network word count, with these words, workers and times.

    ``seconds`` is how long rows are made, ``warmup_s`` how much of it does not count. ``rate`` is
    in rows per second over all splits; None: as fast as possible, with ``rows`` per split.
    """

    name: str
    title: str
    workers: int = 2
    payload: int = 32
    keys: int = 10_000
    distribution: str = "uniform"
    rows: int | None = None
    rate: int | None = None
    seconds: float = 60.0
    warmup_s: float = 5.0
    batch_rows: int = 8192
    checkpoint: str = "10s"
    shuffle: dict[str, Any] = field(default_factory=dict)
    stall_after: float = 0.0
    stall_for: float = 0.0
    memory_budget_mib: int | None = None
    targets: tuple[Target, ...] = ()

    @property
    def rows_per_split(self) -> int:
        """Rows of each of the ``workers`` splits."""
        if self.rate is not None:
            return round(self.rate * self.seconds / self.workers)
        assert self.rows is not None, f"{self.name}: without a rate it needs rows"
        return self.rows

    def job(self, report: Path) -> dict[str, Any]:
        """Return the StreamJob file of the scenario, as plain data."""
        generator: dict[str, Any] = {
            "rows": self.rows_per_split,
            "splits": self.workers,
            "payload": self.payload,
            "keys": self.keys,
            "distribution": self.distribution,
        }
        if self.rate is not None:
            generator["rate"] = self.rate // self.workers
        discard: dict[str, Any] = {"report": str(report), "markAfter": self.warmup_s}
        if self.stall_for:
            discard |= {"stallAfter": self.stall_after, "stallFor": self.stall_for}
        count = {"name": "count", "function": "count"}
        steps = [
            {"name": "words", "source": {"generator": generator, "batchRows": self.batch_rows}},
            {"name": "counts", "keyBy": ["word"], "aggregate": {"compute": [count]}},
            {"name": "end", "sink": {"discard": discard}},
        ]
        spec: dict[str, Any] = {
            "replicas": self.workers,
            "checkpoint": {"interval": self.checkpoint},
            "job": {"graph": {"steps": steps}},
        }
        if self.shuffle:
            spec["shuffle"] = self.shuffle
        return {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "StreamJob",
            "metadata": {"name": f"bench-{self.name}"},
            "spec": spec,
        }


def names() -> list[str]:
    """List the scenarios in the order in which they are run."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Scenario:
    """Read a scenario. Raises SystemExit naming the known ones."""
    path = FOLDER / f"{name}.toml"
    if not path.exists():
        raise SystemExit(f"unknown scenario {name!r}: known are {', '.join(names())}")
    plain = tomllib.loads(path.read_text())
    targets = tuple(Target(**t) for t in plain.pop("targets", []))
    return Scenario(name=name, targets=targets, **plain)
