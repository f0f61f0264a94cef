"""Computes the expected output of a scenario from the generator alone."""

from collections.abc import Mapping

import numpy as np

from bench import texts
from bench.jobs import CHANGING_SEED
from bench.scenario import Scenario
from penstock.base.values import replace
from penstock.connectors.generator import Integers, WordBlock
from penstock.contract.connectors import WordsSpec


def words_spec(scenario: Scenario) -> WordsSpec:
    """Return the words of a scenario, as its source generates them."""
    return WordsSpec(
        splits=scenario.splits,
        rows=scenario.rows_per_split,
        payload=scenario.payload,
        keys=scenario.keys,
        symbols=scenario.symbols,
        distribution=scenario.distribution,
        exponent=scenario.exponent,
    )


def expected(scenario: Scenario) -> dict[str, int]:
    """Return the number of rows and, for a word count, the sum of all running counts modulo 2^64.

    A word that occurs n times has the counts 1..n, whose sum is n(n+1)/2. A word that is lost,
    repeated or sent to the wrong task changes this sum.
    """
    if scenario.kind == "texts":
        return texts.expected(scenario)
    rows = {"rows": scenario.rows_per_split * scenario.splits}
    if scenario.kind in {"relay", "backpressure", "sends"}:
        return rows
    if scenario.kind == "rows":
        return rows | {"number": rows["rows"] * (rows["rows"] - 1) // 2}
    counts = _counts(words_spec(scenario))
    if scenario.kind == "changed":
        counts = np.concatenate([counts, _counts(changing_spec(scenario))])
    sums = counts.astype(np.uint64) * (counts + 1).astype(np.uint64) // np.uint64(2)
    return {"rows": int(counts.sum()), "count": int(sums.sum(dtype=np.uint64))}


def changing_spec(scenario: Scenario) -> WordsSpec:
    """Return the few words that repeat. Their own seed makes them differ from the other words."""
    rows = round(scenario.changing_rate * scenario.seconds / scenario.splits)
    spec = replace(words_spec(scenario), rows=rows, keys=scenario.changing_keys)
    return replace(spec, distribution="uniform", seed=CHANGING_SEED)


def _counts(spec: WordsSpec) -> Integers:
    """Return how often each word occurs in all splits, by the index of the word."""
    block, rows = WordBlock(spec), spec.rows or 0
    counts = np.zeros(spec.keys, np.int64)
    for split in range(spec.splits):
        counts += block.counts(split, rows)
    return counts


def differences(wanted: Mapping[str, int], got: Mapping[str, int]) -> list[str]:
    """List the differences from the expected output. Empty if the run was exact."""
    return [
        f"{name}: {got.get(name, 0)} instead of {value}"
        for name, value in wanted.items()
        if (got.get(name, 0) - value) % 2**64
    ]
