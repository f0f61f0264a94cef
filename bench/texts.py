"""Real text as the input of a benchmark: PySpark writes it as Parquet.

    parquet  the job reads the files itself
    replay   Spark pushes the rows into the running job over Arrow Flight

The text is that of the installed packages. The expected counts are computed here with Arrow.
"""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.connectors.parquet_source import ParquetSource
from penstock.contract.columns import Column

if TYPE_CHECKING:
    from bench.scenario import Scenario

FOLDER = Path(__file__).resolve().parent.parent / ".bench" / "texts"
FILES = 8  # of one turn over the text
PARTITIONS = 4  # that Spark pushes
LINES_PER_READ = 8192
SENDER_ENDS_S = 60.0


def folder_of(scenario: "Scenario") -> Path:
    """Return the folder of a scenario's text. It may not exist yet."""
    return FOLDER / f"{scenario.text}-{scenario.repeat}"


def prepare(scenario: "Scenario") -> None:
    """Let PySpark write the text of a scenario, unless it exists."""
    options = ["--size", scenario.text, "--repeat", str(scenario.repeat), "--files", str(FILES)]
    command = _spark("dataset", str(folder_of(scenario)), *options)
    subprocess.run(command, check=True, stdout=sys.stderr)


def steps(scenario: "Scenario", report: Path) -> list[dict[str, Any]]:
    """Return the steps before the count, as plain data."""
    source: dict[str, Any] = {"parquet": {"path": str(folder_of(scenario))}}
    if scenario.replayed:
        source = {"ingest": {"partitions": PARTITIONS, "announce": str(announced(report))}}
    columns = [{"name": "line", "type": "string"}]
    return [
        {"name": "words", "source": source | {"columns": columns}},
        {"name": "split", "split": {"column": "line", "into": "word"}},
    ]


def announced(report: Path) -> Path:
    """Return the folder in which the workers of a run announce their addresses."""
    return report.with_name("announced")


@contextmanager
def pushed(scenario: "Scenario", report: Path, job: "subprocess.Popen[str]") -> Iterator[None]:
    """Push the text into a run during the measurement, if the scenario says so.

    A sender that fails ends the job, which would otherwise wait for it.
    """
    if not scenario.replayed:
        yield
        return
    command = _spark("replay", str(folder_of(scenario)), "--announce", str(announced(report)))
    with subprocess.Popen(command, stdout=sys.stderr) as sender:
        Thread(target=_end_with, args=(sender, job), daemon=True).start()
        try:
            yield
            sender.wait(SENDER_ENDS_S)  # it must first end its Java process
        finally:
            sender.kill()


def _end_with(sender: "subprocess.Popen[bytes]", job: "subprocess.Popen[str]") -> None:
    if sender.wait():
        job.terminate()


def read_words_per_s(scenario: "Scenario", seconds: float) -> float:
    """Return the words/s at which one thread reads the lines of the first file, without a job."""
    folder = folder_of(scenario)
    source = ParquetSource(str(folder), (Column("line", "string"),))
    first = source.splits()[0]
    reader, lines, begun = source.open(first), 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        read = reader.read(LINES_PER_READ)
        if read is None:
            break
        lines += read.batch.num_rows
    reader.close()
    file = min(folder.glob("*.parquet"))
    words_per_line: float = len(_words_of(file)) / pq.read_metadata(file).num_rows
    return lines / spent * words_per_line


def expected(scenario: "Scenario") -> dict[str, int]:
    """Return the number of words in the text, and the sum of their running counts modulo 2^64."""
    found: Counter[str] = Counter()
    for file in folder_of(scenario).glob("*.parquet"):
        values, times = pc.value_counts(_words_of(file)).flatten()
        found.update(dict(zip(values.to_pylist(), times.to_pylist(), strict=True)))
    counts = np.array(list(found.values()), np.uint64)
    sums = counts * (counts + np.uint64(1)) // np.uint64(2)
    return {"rows": int(counts.sum()), "count": int(sums.sum(dtype=np.uint64))}


def _words_of(file: Path) -> pa.Array:
    """Return the words of a file as the step ``split`` does: without one empty word at the end."""
    lines = pq.read_table(file, columns=["line"])["line"].combine_chunks().drop_null()
    lines = lines.filter(pc.not_equal(lines, ""))
    lines = pc.replace_substring_regex(lines, " $", "")  # otherwise the last word would be empty
    return pc.split_pattern(lines, " ").flatten()


def _spark(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock_spark", *arguments]
