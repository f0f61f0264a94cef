"""Fraud detection: how improbable are the last five transactions of an entity, by a Markov model of their states?

A state has three letters: the amount (low, medium, high), the type (normal, high-risk) and the time since the
transaction before (long, normal, short). The model has the probability of each state after each other one. The
score of a transaction is the mean of ``1 - probability`` over the four steps between the last five states.
"""

import csv
import itertools
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps

AMOUNTS = {"L": 0.35, "M": 0.53, "H": 0.12}
TYPES = {"N": 0.85, "H": 0.15}
ELAPSED = {"L": 0.35, "N": 0.45, "S": 0.20}
STATES = tuple(map("".join, itertools.product(AMOUNTS, TYPES, ELAPSED)))
THRESHOLD = 0.96
SUM_DISORDER = 1e-6  # by how much the sum of a row may differ from 1


@ps.record
class Transaction:
    """A transaction."""

    entity_id: str
    transaction_id: str
    state: ps.Enum[STATES]  # type: ignore[valid-type]


@ps.record
class Alert:
    """A transaction that is improbable."""

    entity_id: str
    transaction_id: str
    score: float


@ps.state
class Seen:
    """The last five states of an entity, by their numbers."""

    last: ps.Ring[ps.int8, 5]  # type: ignore[valid-type]


def scorer(misses: Any) -> Any:
    """Return the function of the step. ``misses[i, j]`` is 1 - the probability of state j after state i."""

    def score(r: Transaction, s: Seen, out: ps.Out[Alert]) -> None:
        last = s.last
        last.append(r.state)
        if len(last) < 5:
            return
        total = 0.0
        for i in range(1, 5):
            total += misses[last[i - 1], last[i]]
        if total / 4 > THRESHOLD:
            out.emit(Alert(r.entity_id, r.transaction_id, total / 4))

    return score


def synthesised() -> Any:
    """Return a model: the shares of amounts, types and times, with a little noise in each row."""
    shares = np.array([AMOUNTS[a] * TYPES[t] * ELAPSED[e] for a, t, e in STATES])
    noise = np.random.Generator(np.random.PCG64(1)).uniform(0.95, 1.05, (len(STATES), len(STATES)))
    rows = shares * noise
    return rows / rows.sum(axis=1, keepdims=True)


def read_model(path: str) -> Any:
    """Read a model from CSV: the states in any order, then a row of probabilities for each. Raises ConfigError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ps.ConfigError(f"model {path}: cannot be read: {error}") from error
    lines = [(number, row) for number, row in enumerate(csv.reader(text.splitlines()), 1) if row]
    names = [name.strip() for name in lines[0][1]] if lines else []
    if sorted(names) != sorted(STATES):
        raise ps.ConfigError(f"model {path}:1: the first line must name the states {', '.join(STATES)}")
    if len(lines) != len(STATES) + 1:
        raise ps.ConfigError(f"model {path}: it has {len(lines) - 1} rows; it must have one for each state")
    rows = np.array([_probabilities(f"model {path}:{number}", row) for number, row in lines[1:]])
    order = [names.index(state) for state in STATES]
    return np.ascontiguousarray(rows[np.ix_(order, order)])


def _probabilities(place: str, row: list[str]) -> list[float]:
    try:
        found = [float(each) for each in row]
    except ValueError as error:
        raise ps.ConfigError(f"{place}: {error}") from None
    if len(found) != len(STATES):
        raise ps.ConfigError(f"{place}: it has {len(found)} probabilities; it must have {len(STATES)}")
    if not all(0 <= each <= 1 for each in found):
        raise ps.ConfigError(f"{place}: a probability is not between 0 and 1")
    if abs(sum(found) - 1) > SUM_DISORDER:
        raise ps.ConfigError(f"{place}: the probabilities sum to {sum(found):g}, not to 1")
    return found


def job(params: ps.Parameters) -> ps.Job:
    """Score transactions by entity."""
    model = read_model(params["model"]) if params["model"] else synthesised()
    dead_letters = params["dead_letters"]
    job = ps.Job()
    columns = {"entity_id": "string", "transaction_id": "string", "state": "string"}
    announce = params.get("announce")
    source = ps.ingest(2, announce) if announce else ps.parquet(params["input"], rate=int(params["rate"]))
    transactions = job.source("transactions", source, columns=columns).key_by("entity_id")
    alerts = transactions.process("score", scorer(1.0 - model), on_error="dead-letter" if dead_letters else "fail")
    alerts.sink("alerts", ps.parquet(params["output"]))
    if dead_letters:
        alerts.dead_letter.sink("unknown", ps.parquet(dead_letters))
    return job
