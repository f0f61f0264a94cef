"""The jobs that are measured, as job files.

words         sources -> keyed running count -> discard; every word goes to the worker that owns it
relay         source on worker 0 -> relay on worker 1 -> sink on worker 0: each row crosses twice
changed       many words, each once and as fast as possible, and a few words that repeat
backpressure  source on worker 0 -> a stage on worker 1 that sleeps for each packet, in a cycle of times
slow          words, and after the counts a slow step of ``bench.stages``
texts         real text -> words -> keyed running count -> discard (``bench.texts``)
rows          rows of ``data`` (``bench.rows``) on worker 0 -> a stage on worker 1
own           like words, with a user's own source (``bench.own``)
sends         words -> a node that waits or sheds -> two slow tasks (``bench.sends``)
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import texts

if TYPE_CHECKING:
    from bench.scenario import Scenario

CHANGING_SEED = 1  # not the other words' seed: with that, 1 in 26 changing words would equal one of them
PACKETS_PER_CALL = 10  # the slow stage sleeps once for this many packets


def job_file(scenario: "Scenario", report: Path) -> dict[str, Any]:
    """Return the job file of a scenario as plain data. The job writes its totals to ``report``."""
    spec: dict[str, Any] = {
        "replicas": scenario.workers,
        "checkpoint": {"interval": scenario.checkpoint},
        # The scenario kills workers twenty times in six minutes. The limit of restarts must allow it.
        "restart": {"attempts": 1_000, "backoff": {"max": "200ms"}},
        "job": IN_PYTHON[scenario.kind](scenario, report)
        if scenario.kind in IN_PYTHON
        else {"graph": {"steps": STEPS[scenario.kind](scenario, report)}},
    }
    if scenario.buffer is not None:
        spec["shuffle"] = {**scenario.shuffle, "bufferBytes": scenario.buffer}
    elif scenario.shuffle:
        spec["shuffle"] = scenario.shuffle
    if scenario.state:
        spec["state"] = scenario.state
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": job_name(scenario)},
        "spec": spec,
    }


def job_name(scenario: "Scenario") -> str:
    """Return the name under which the job runs."""
    return f"bench-{scenario.kind}"


def _words(scenario: "Scenario", report: Path) -> list[dict[str, Any]]:
    return [_source(scenario), _counts(), _sink(scenario, report)]


def _changed(scenario: "Scenario", report: Path) -> list[dict[str, Any]]:
    words, counts, end = _words(scenario, report)
    drift = {
        "rows": round(scenario.changing_rate * scenario.seconds / scenario.splits),
        "rate": scenario.changing_rate // scenario.splits,
        "splits": scenario.splits,
        "payload": scenario.payload,
        "keys": scenario.changing_keys,
        "seed": CHANGING_SEED,
    }
    source = {"name": "drift", "source": {"generator": drift}}
    return [words, source, counts | {"inputs": ["words", "drift"]}, end]


def _relay(scenario: "Scenario", report: Path) -> list[dict[str, Any]]:
    relay = {"name": "counts", "map": {"function": "bench.stages:same"}}
    return [
        _source(scenario) | {"parallelism": 1},
        relay | _to("second"),
        _sink(scenario, report) | _to("first"),
    ]


def _backpressure(scenario: "Scenario", report: Path) -> list[dict[str, Any]]:
    stage = {"function": "bench.stages:sleepy", "batchRows": PACKETS_PER_CALL}
    return [
        _source(scenario) | {"parallelism": 1},
        {"name": "counts", "map": stage} | _to("second"),
        _sink(scenario, report),
    ]


def _slow(scenario: "Scenario", report: Path) -> list[dict[str, Any]]:
    source = _source(scenario)
    if scenario.senders is not None:
        source["parallelism"] = scenario.senders
    step = {"name": "slowly", "map": {"function": f"bench.stages:{scenario.step}"}}
    return [source, _counts(), step, _sink(scenario, report)]


def _texts(scenario: "Scenario", report: Path) -> list[dict[str, Any]]:
    return [*texts.steps(scenario, report), _counts(), _sink(scenario, report)]


def _rows(scenario: "Scenario", report: Path) -> dict[str, Any]:
    parameters = {
        "kind": scenario.data,
        "payload": scenario.payload,
        "rows": scenario.rows_per_split,
        "batch_rows": scenario.batch_rows,
        "report": str(report),
    }
    return {"entrypoint": "bench.rows:job", "parameters": parameters}


def _own(scenario: "Scenario", report: Path) -> dict[str, Any]:
    assert scenario.distribution == "uniform", "the source of one's own has no other"
    assert scenario.rate is None, "the source of one's own has no rate"
    parameters = {
        "splits": scenario.splits,
        "rows": scenario.rows_per_split,
        "payload": scenario.payload,
        "keys": scenario.keys,
        "symbols": scenario.symbols,
        "batch_rows": scenario.batch_rows,
        "mark_after": scenario.warmup_s,
        "report": str(report),
        "step": scenario.step,
    }
    return {"entrypoint": "bench.own:job", "parameters": parameters}


def _sends(scenario: "Scenario", report: Path) -> dict[str, Any]:
    assert scenario.rate is not None, "rows are offered at a rate"
    parameters = {
        "splits": scenario.splits,
        "rows": scenario.rows_per_split,
        "rate": scenario.rate // scenario.splits,
        "payload": scenario.payload,
        "keys": scenario.keys,
        "symbols": scenario.symbols,
        "batch_rows": scenario.batch_rows,
        "mark_after": scenario.warmup_s,
        "report": str(report),
        "step": scenario.step,
    }
    return {"entrypoint": "bench.sends:job", "parameters": parameters}


def _to(place: str) -> dict[str, Any]:
    return {"partition": "custom", "partitionFunction": f"bench.stages:to_{place}"}


def _source(scenario: "Scenario") -> dict[str, Any]:
    generator: dict[str, Any] = {
        "rows": scenario.rows_per_split,
        "splits": scenario.splits,
        "payload": scenario.payload,
        "keys": scenario.keys,
        "symbols": scenario.symbols,
        "distribution": scenario.distribution,
        "exponent": scenario.exponent,
    }
    if scenario.rate is not None:
        generator["rate"] = scenario.rate // scenario.splits
    source = {"generator": generator, "batchRows": scenario.batch_rows}
    return {"name": "words", "source": source}


def _counts() -> dict[str, Any]:
    count = {"name": "count", "function": "count"}
    return {"name": "counts", "keyBy": ["word"], "aggregate": {"compute": [count]}}


def _sink(scenario: "Scenario", report: Path) -> dict[str, Any]:
    discard: dict[str, Any] = {"report": str(report), "markAfter": scenario.warmup_s}
    if scenario.stall_for:
        discard |= {"stallAfter": scenario.stall_after, "stallFor": scenario.stall_for}
    return {"name": "end", "sink": {"discard": discard}}


STEPS = {
    "words": _words,
    "changed": _changed,
    "relay": _relay,
    "backpressure": _backpressure,
    "slow": _slow,
    "texts": _texts,
}
IN_PYTHON = {"rows": _rows, "own": _own, "sends": _sends}
