"""A scenario: a TOML file that says what runs, for how long, and how the run is disturbed.

A file describes one run, or several: ``cells`` are tables of changed fields, and a field with a
list of values stands for each of them (payload x batch x parallelism). With ``variants`` the runs
alternate, so that two settings are compared under the same weather.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from bench.jobs import job_file
from penstock.base.values import replace

FOLDER = Path(__file__).parent / "scenarios"
QUICK_SHARE = 10  # --quick: a tenth of the rows and the time
QUICK_WARMUP_S = 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that this scenario should reach: ``name`` of a result, and the bound."""

    name: str
    at_least: float | None = None
    at_most: float | None = None

    def met(self, results: Mapping[str, Any]) -> bool:
        """Return whether the result is within the bound. False if the result is missing."""
        value = results.get(self.name)
        if value is None:
            return False
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        """Return the bound as text."""
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A disturbance of the job, ``at_s`` after its first rows, ``times`` times in total.

    ``do``: kill (a worker that does not lead), kill-leader, rescale (to ``workers``).
    """

    do: str
    at_s: float
    workers: int = 0
    every_s: float = 0.0
    times: int = 1

    def moments(self) -> list[tuple[float, "Disturbance"]]:
        """List the moments at which it is due."""
        return [(self.at_s + n * self.every_s, self) for n in range(self.times)]

    def __str__(self) -> str:
        """Return a text for plots."""
        return f"rescale to {self.workers}" if self.do == "rescale" else self.do


@dataclass(frozen=True, slots=True)
class Scenario:
    """A job, its words, workers and times.

    ``seconds`` is how long rows are made, ``warmup_s`` how much of it does not count. ``rate`` is
    in rows per second over all splits; None: as fast as possible, with ``rows`` per split.
    ``kind`` of job is one of ``bench.jobs``.
    """

    name: str
    title: str
    workers: int = 2
    payload: int = 32
    keys: int = 10_000
    symbols: int = 26  # number of different characters in the words
    distribution: str = "uniform"
    exponent: float = 1.05  # of the Zipf distribution: with 3.8, one of 10,000 words makes up nine rows in ten
    data: str = ""  # of kind ``rows``: sensor, text or random
    text: str = ""  # of kind ``texts``: bytes of it, like 40M, taken ``repeat`` times
    repeat: int = 1
    replayed: bool = False  # true: Spark pushes the text into the job; false: the job reads it
    link: str = ""  # rate of the loopback interface for both directions together; empty: not limited
    rows: int | None = None
    rate: int | None = None
    seconds: float = 60.0
    warmup_s: float = 5.0
    batch_rows: int = 8192
    checkpoint: str = "10s"
    shuffle: dict[str, Any] = field(default_factory=dict)
    buffer: str | None = None  # bytes of an output buffer, which then is all that waits there
    state: dict[str, Any] = field(default_factory=dict)
    changing_keys: int = 0  # of kind ``changed``: so many words go on coming, ``changing_rate`` a second
    changing_rate: int = 0
    bare: bool = False  # also run the same exchange without an engine, before and after
    cold: bool = False  # compile every kernel anew, as after an installation
    stall_after: float = 0.0
    stall_for: float = 0.0
    kind: str = "words"
    source_splits: int | None = None
    step: str = "same"  # of kind ``slow``: the function of ``bench.stages`` behind the counts; ``own``: record
    pool: str = ""  # where Arrow takes memory from; empty: its default, a pool that keeps what is released
    switches: bool = False  # count context switches
    senders: int | None = None  # of kind ``slow``: tasks of the source, so channels of each counter
    disturb: tuple[Disturbance, ...] = ()
    targets: tuple[Target, ...] = ()
    cells: tuple[dict[str, Any], ...] = ()
    variants: tuple[dict[str, Any], ...] = ()
    alternations: int = 1
    judged: str = ""  # the variant that is compared with the better one of the others

    @property
    def splits(self) -> int:
        """Number of splits: as the file says, or else one per worker; relay, backpressure and rows have one."""
        if self.source_splits is not None:
            return self.source_splits
        return 1 if self.kind in {"relay", "backpressure", "rows"} else self.workers

    @property
    def rows_per_split(self) -> int:
        """Rows of each split."""
        if self.rate is not None:
            return round(self.rate * self.seconds / self.splits)
        assert self.rows is not None, f"{self.name}: without a rate it needs rows"
        return self.rows

    def job(self, report: Path) -> dict[str, Any]:
        """Return the StreamJob file of the scenario, as plain data."""
        return job_file(self, report)

    def shorter(self) -> "Scenario":
        """Return the same scenario with a tenth of the time, for a trial run."""
        rows = self.rows // QUICK_SHARE if self.rows else None
        return replace(
            self,
            rows=rows,
            seconds=self.seconds / QUICK_SHARE,
            warmup_s=min(self.warmup_s, QUICK_WARMUP_S),
            stall_after=self.stall_after / QUICK_SHARE,
            stall_for=self.stall_for / QUICK_SHARE,
            alternations=min(self.alternations, 2),
            repeat=max(self.repeat // QUICK_SHARE, 1),
            disturb=tuple(replace(d, at_s=d.at_s / QUICK_SHARE, times=1) for d in self.disturb),
            cells=tuple({k: v // QUICK_SHARE if k == "rows" else v for k, v in c.items()} for c in self.cells),
        )

    def runs(self) -> Iterator["Scenario"]:
        """Yield every run of the scenario: cells in order, variants in turn."""
        for cell in self.cells or ({},):
            for changes in expand(cell):
                one = replace(self, cells=(), variants=(), alternations=1, **changes)
                one = replace(one, name=_cell_name(self.name, changes))
                for turn in range(self.alternations):
                    yield from _variants(one, self.variants, turn)


def _variants(one: Scenario, variants: tuple[dict[str, Any], ...], turn: int) -> list[Scenario]:
    """Return one run for each variant; every other turn in the opposite order."""
    made = [
        replace(one, name=f"{one.name}/{v['name']}", **{k: x for k, x in v.items() if k != "name"}) for v in variants
    ] or [one]
    return made[::-1] if turn % 2 else made


def expand(cell: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a table for every combination of the values that are lists."""
    choices = [v if isinstance(v, list) else [v] for v in cell.values()]
    for values in product(*choices):
        yield dict(zip(cell, values, strict=True))


def part(runs: list[Scenario], text: str) -> list[Scenario]:
    """Return the K-th of N contiguous parts of a list. ``text`` is ``K/N``."""
    k, n = (int(x) for x in text.split("/"))
    if not 1 <= k <= n:
        raise SystemExit(f"--part {text}: there is no such part")
    return runs[(k - 1) * len(runs) // n : k * len(runs) // n]


def _cell_name(name: str, changes: Mapping[str, Any]) -> str:
    told = [f"{k}={v}" for k, v in changes.items() if k not in {"rows", "seconds"}]
    return " ".join([name, ",".join(told)]).strip()


def names() -> list[str]:
    """List the scenarios in the order in which they are run."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Scenario:
    """Read a scenario. Raises SystemExit naming what is unknown."""
    path = FOLDER / f"{name}.toml"
    if not path.exists():
        raise SystemExit(f"unknown scenario {name!r}: known are {', '.join(names())}")
    return read(name, tomllib.loads(path.read_text()))


def read(name: str, plain: dict[str, Any]) -> Scenario:
    """Make a scenario of the data of a file. Raises SystemExit for a field that is not known."""
    known = {f.name for f in fields(Scenario)}
    for table in (plain, *plain.get("cells", ()), *plain.get("variants", ())):
        for key in table:
            if key not in known:
                raise SystemExit(f"{name}: unknown field {key!r}: known are {', '.join(known)}")
    made = dict(plain)
    made["targets"] = _targets(plain)
    made["disturb"] = tuple(Disturbance(**d) for d in plain.get("disturb", ()))
    made["cells"] = tuple(plain.get("cells", ()))
    made["variants"] = tuple(v | {"targets": _targets(v)} if "targets" in v else v for v in plain.get("variants", ()))
    return Scenario(name=name, **made)


def _targets(table: Mapping[str, Any]) -> tuple[Target, ...]:
    return tuple(Target(**t) for t in table.get("targets", ()))
