"""The jobs of Penstock that are measured, and how one runs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bench import runner

CHECKPOINT_S = 2
Step = dict[str, Any]


def from_kafka(servers: str, topic: str, form: str, **options: Any) -> Step:
    """Return a source of the words of a topic: both columns of JSON, or each value as it is."""
    columns = {"json": {"word": "string", "number": "int64"}, "raw": {"value": "binary"}}[form]
    listed = [{"name": name, "type": kind} for name, kind in columns.items()]
    kafka = {"bootstrapServers": servers, "topic": topic, "format": form, **options}
    return {"name": "words", "source": {"kafka": kafka, "columns": listed}}


def generated(rows: int, **options: Any) -> Step:
    """Return a source of generated words: one split."""
    return {"name": "words", "source": {"generator": {"rows": rows, "splits": 1, "payload": 32, **options}}}


def counts() -> Step:
    """Return a step that gives each word with its count so far."""
    return {"name": "counts", "keyBy": ["word"], "aggregate": {"compute": [{"name": "count", "function": "count"}]}}


def to(kind: str, **options: Any) -> Step:
    """Return a sink."""
    return {"name": "end", "sink": {kind: options}}


def job(steps: list[Step], workers: int) -> dict[str, Any]:
    """Return a job file as plain data."""
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": "bench-connectors"},
        "spec": {
            "replicas": workers,
            "checkpoint": {"interval": f"{CHECKPOINT_S:g}s"},
            "job": {"graph": {"steps": steps}},
        },
    }


@contextmanager
def running(
    folder: Path, steps: list[Step], workers: int = 1, environment: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Run a job until the end of the ``with``. Its statuses are the lines of ``folder/statuses``."""
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job(steps, workers), sort_keys=False))
    command = [sys.executable, "-m", "penstock.cli", "run", str(file), "--json", "--dir", str(folder / "state")]
    given = runner.environment(runner.ROOT) | (environment or {})
    with (folder / "statuses").open("w") as out, (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=out, stderr=log, text=True, env=given, cwd=folder)
        try:
            yield process
        finally:
            process.kill()  # its workers end with it
            process.wait()
