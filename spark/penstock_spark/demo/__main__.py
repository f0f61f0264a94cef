"""``python -m penstock_spark.demo``: dataset, job, disturbances, oracle, table."""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock.base.errors import PenstockError
from penstock.base.values import replace
from penstock_spark import dataset, folders, report, temperature, word_oracle
from penstock_spark import oracle_windows as windows
from penstock_spark.cli import positive, quantity
from penstock_spark.demo import summary
from penstock_spark.demo.job import DemoError, JobFiles, RunningJob
from penstock_spark.demo.scenario import disturb

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ABOUT = (
    "Count the words of real text while workers are killed and the job is rescaled; then a Spark "
    "job compares every row. With make: make demo DEMO='--size 10M --text FOLDER'."
)
WORKERS = 2
END_TIMEOUT_S = 300.0
WINDOWING = windows.Windowing(size_us=60_000_000, bound_us=30_000_000, lateness_us=10_000_000)
"""The times of examples/temperature.yaml."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when everything was exact, 1 when not, 2 when it could not be run."""
    options = _parser().parse_args(arguments)
    demo = Demo(options.work, options.seconds)
    try:
        return demo.run(options)
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if not isinstance(error, DemoError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m penstock_spark.demo", description=ABOUT)
    parser.add_argument("--work", type=Path, default=Path(".demo"), help="folder for everything (.demo)")
    parser.add_argument(
        "--text",
        action="append",
        default=[],
        help="folder of text to count, repeatable (default: the source code that is installed)",
    )
    parser.add_argument("--size", type=quantity, default=40_000_000, help="bytes of text (40M)")
    parser.add_argument("--repeat", type=positive, default=1, help="turns over the text (1)")
    parser.add_argument("--readings", type=positive, default=500_000, help="rows of temperatures (500000)")
    parser.add_argument(
        "--seconds",
        type=positive,
        default=180,
        help="pace: the text would last so long; when all is done to the job it goes at full speed",
    )
    return parser


class Demo:
    """The demo's folder, and what was measured until now."""

    def __init__(self, work: Path, seconds: int) -> None:
        """All files are below ``work``. Results of an earlier demo there are removed."""
        self._work = work.absolute()
        self._seconds = seconds
        self._begun = time.monotonic()
        self.lines = self._work / "lines"
        self.readings = self._work / "readings"

    def run(self, options: argparse.Namespace) -> int:
        """Run all parts of the demo. Return the exit code."""
        self._work.mkdir(parents=True, exist_ok=True)
        text = dataset.TextRequest(tuple(options.text), size_max=options.size, repeat=options.repeat)
        marker = self._datasets(text, temperature.TemperatureRequest(rows=options.readings))
        counting = self._count_words(marker)
        self._average_temperatures()
        counted, averaged = self._check()
        logs = sorted(self._work.glob("wordcount-state/wordcount/workers/*/log"))
        rows = [
            *summary.job_rows(counting, marker["rows"]),
            *summary.event_rows(counting.events),
            *summary.pause_rows(logs),
            *summary.checkpoint_rows(counting.job),
            ("different words", counted.words_expected),
            ("word count exact", "yes" if counted.exact else "NO"),
            ("windows / late rows", f"{averaged.windows_expected:,} / {averaged.late_expected:,}"),
            ("temperature windows exact", "yes" if averaged.exact else "NO"),
        ]
        print()
        report.table(rows)
        for difference in (*counted.first, *averaged.first):
            print(f"  differs: {difference}")
        exact = counted.exact and averaged.exact
        print(f"\nexact: {'yes' if exact else 'NO'}   ({self._elapsed():.0f} s in all)")
        facts = {"exact": exact, "word_count": counted.as_dict(), "windows": averaged.as_dict()}
        report.write_json(str(self._work / "result.json"), {**facts, "table": rows})
        return 0 if exact else 1

    def say(self, text: str) -> None:
        """Print one line of progress."""
        print(f"[{self._elapsed():6.1f} s] {text}", flush=True)

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _datasets(self, text: dataset.TextRequest, readings: temperature.TemperatureRequest) -> dict[str, Any]:
        description = dataset.describe(text, dataset.find(text))
        lines_there = folders.is_current(self.lines, description)
        readings_there = folders.is_current(self.readings, temperature.describe(readings))
        if not (lines_there and readings_there):
            self.say("starting Spark to write the datasets (only the first time)")
            with _spark() as spark:
                if not lines_there:
                    dataset.write(spark, text, self.lines, replace=True)
                if not readings_there:
                    temperature.write(spark, readings, self.readings, replace=True)
        marker = folders.read_marker(self.lines)
        assert marker is not None, "the dataset is complete"
        self.say(f"dataset: {marker['rows']:,} lines of real text in {len(marker['files'])} files")
        return marker

    def _count_words(self, marker: dict[str, Any]) -> summary.Counting:
        """Disturb the job while its input is paced, stop it, and let it finish at full speed.

        So nothing depends on how quick this machine is: the job cannot end before the demo has
        done all that it wants to do to it.
        """
        rate = max(1, marker["rows"] // len(marker["files"]) // self._seconds)
        files = self._files("wordcount", self.lines, ())
        paced = replace(files, settings=[*files.settings, f"job.parameters.rate={rate}"])
        self.say(f"penstock run examples/wordcount.yaml --workers {WORKERS}  (paced)")
        job = RunningJob(paced, WORKERS)
        try:
            events = disturb(job, self.say)
            self.say("Ctrl-C: a last checkpoint, then the end")
            job.stop(END_TIMEOUT_S)
        finally:
            job.end()
        paced_seconds = time.monotonic() - job.begun
        before = _rows_in(files.output)
        self.say("penstock run once more: it goes on from there, at full speed")
        rest_seconds = self._run_to_end(replace(files, log=self._work / "wordcount-rest.log"))
        after = _rows_in(files.output)
        return summary.Counting(job, tuple(events), before, paced_seconds, after - before, rest_seconds)

    def _run_to_end(self, files: JobFiles) -> float:
        job = RunningJob(files, WORKERS)
        try:
            code = job.wait(END_TIMEOUT_S)
        finally:
            job.end()
        if code != 0:
            raise DemoError(f"penstock run ended with exit code {code}{job.words()}")
        seconds = time.monotonic() - job.begun
        self.say(f"finished and committed after {seconds:.1f} s")
        return seconds

    def _average_temperatures(self) -> None:
        late = f"late={self._work / 'temperature-late'}"
        files = self._files("temperature", self.readings, (late,))
        self.say(f"penstock run examples/temperature.yaml --workers {WORKERS}")
        self._run_to_end(files)

    def _files(self, name: str, data: Path, more: Sequence[str]) -> JobFiles:
        """Remove the files of an earlier demo. Return the folders of this run."""
        output, state = self._work / f"{name}-output", self._work / f"{name}-state"
        for old in (output, state, self._work / f"{name}-late"):
            shutil.rmtree(old, ignore_errors=True)
        parameters = [f"input={data}", f"output={output}", *more]
        settings = [f"job.parameters.{p}" for p in parameters]
        log = self._work / f"{name}.log"
        return JobFiles(name, EXAMPLES / f"{name}.yaml", settings, output, state, log)

    def _check(self) -> tuple[word_oracle.OracleVerdict, windows.WindowVerdict]:
        self.say("starting Spark to compute the expected answers and compare every row")
        places = windows.Folders(self.readings, self._work / "temperature-output", self._work / "temperature-late")
        with _spark() as spark:
            counted = word_oracle.check(spark, self.lines, self._work / "wordcount-output")
            self.say(f"word count: {counted.rows_found:,} rows compared")
            averaged = windows.check(spark, places, WINDOWING)
        self.say(f"temperature: {averaged.windows_found:,} windows compared")
        return counted, averaged


def _rows_in(output: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in output.glob("*.parquet"))


def _spark() -> Any:
    from penstock_spark.session import local_session  # noqa: PLC0415 - PySpark is optional

    return local_session("penstock demo")


if __name__ == "__main__":
    sys.exit(main())
