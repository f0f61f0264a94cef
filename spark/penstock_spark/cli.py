"""The commands: one for each dataset, ``oracle`` and ``oracle-temperature``, ``replay``.

Exit codes: 0 done or exact, 1 the output differs, 2 the user must edit something.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.base import units
from penstock.base.errors import ConfigError, PenstockError
from penstock_spark import (
    dataset,
    equipment,
    folders,
    fraud,
    linear_road,
    pipeline,
    replay,
    report,
    spike,
    temperature,
    texts,
    word_oracle,
)
from penstock_spark import oracle_windows as windows
from penstock_spark.push import proof_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R_contra = TypeVar("R_contra", contravariant=True)

ABOUT = (
    "PySpark beside a job: writes datasets, pushes them into a running job, and computes the "
    "expected answers. Exit codes: 0 done or exact, 1 the output differs, 2 edit something."
)
DIFFERS = 1
REFUSED = 2


class Judged(Protocol):
    """The verdict of an oracle."""

    @property
    def exact(self) -> bool:
        """Return whether the output is exact."""
        ...

    def as_dict(self) -> dict[str, object]:
        """Return the facts."""
        ...


class Drawn(Protocol[R_contra]):
    """A module with datasets whose parts follow from the request."""

    def describe(self, request: R_contra) -> dict[str, Any]:
        """Return what identifies the dataset."""
        ...

    def write(self, spark: "SparkSession", request: R_contra, folder: Path, *, replace: bool = False) -> dict[str, Any]:
        """Write the dataset."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. An error is one line on standard error."""
    options = command_line().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED


def command_line() -> argparse.ArgumentParser:
    """Return what reads the arguments."""
    parser = argparse.ArgumentParser(prog="python -m penstock_spark", description=ABOUT)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_dataset(commands.add_parser("dataset", help="write real text as a Parquet dataset"))
    _add_temperature(commands.add_parser("temperature", help="write a temperature dataset"))
    _add_fraud(commands.add_parser("fraud", help="write transactions for the example fraud"))
    _add_spike(commands.add_parser("spike", help="write readings for the example spike"))
    _add_equipment(commands.add_parser("equipment", help="write data points for the example equipment"))
    _add_linear_road(commands.add_parser("linear-road", help="write traffic for the example linear_road"))
    _add_pipeline(commands.add_parser("pipeline", help="write numbers for the example pipeline"))
    _add_oracle(commands.add_parser("oracle", help="compare the output of the word count with the expected one"))
    _add_windows(commands.add_parser("oracle-temperature", help="compare windows and late rows with the expected ones"))
    _add_replay(commands.add_parser("replay", help="push a dataset into a running job"))
    return parser


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", type=Path, help="folder of Parquet files")
    parser.add_argument(
        "--announce",
        type=Path,
        required=True,
        help="folder in which the job's workers announce themselves (option of its ingest source)",
    )
    parser.add_argument("--rate", type=quantity, help="rows per second in all, like 50k")
    parser.add_argument("--rows", type=quantity, help="rows in all, at most, like 1M")
    parser.add_argument(
        "--trust",
        default="",
        metavar="FOLDER",
        help="ca.crt, tls.crt and tls.key of a sender, for workers in a cluster",
    )
    parser.add_argument("--certificate-host", default="", metavar="NAME", help="the name in their certificate")
    parser.add_argument(
        "--anybody",
        action="store_true",
        help="push to whoever announces itself: for workers in a cluster without certificates; "
        "else workers without them are those of this user, on this machine",
    )
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (- for stdout)")
    parser.set_defaults(command=_replay)


def _add_dataset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("output", type=Path, help="folder to write")
    parser.add_argument(
        "--text",
        action="append",
        default=[],
        metavar="FOLDER",
        help="folder (or file) of text; default: the standard library and the installed packages",
    )
    parser.add_argument("--pattern", action="append", default=[], help="names to read (default *.py and *.txt)")
    parser.add_argument(
        "--size",
        type=quantity,
        default=40_000_000,
        metavar="BYTES",
        help="read at most so much text, like 40M (default)",
    )
    parser.add_argument("--files", type=positive, default=16, help="files of one turn (default 16)")
    parser.add_argument("--repeat", type=positive, default=1, help="turns over the text (default 1)")
    _common(parser, _dataset, replaces=True)


def _add_temperature(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, rows=500_000)
    parser.add_argument("--motes", type=positive, default=54)
    parser.add_argument("--bound", type=_duration, default="30s", help="disorder (default 30s)")
    parser.add_argument("--late", type=_duration, default="10m", help="how late late rows are")
    parser.add_argument("--late-share", type=float, default=0.01, help="share of late rows")
    _common(parser, _temperature, replaces=True)


def _add_fraud(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, rows=1_000_000)
    parser.add_argument("--entities", type=positive, default=60_000)
    parser.add_argument("--unknown-share", type=float, default=0.0, help="share of rows with an unknown state")
    _common(parser, _fraud, replaces=True)


def _add_spike(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, rows=1_000_000)
    parser.add_argument("--motes", type=positive, default=54)
    _common(parser, _spike, replaces=True)


def _add_equipment(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, rows=1_000_000, files=1)
    _common(parser, _equipment, replaces=True)


def _add_linear_road(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, rows=1_000_000, files=2)
    parser.add_argument("--segments", type=positive, default=100, help="of each expressway (default 100)")
    parser.add_argument("--seconds", type=positive, default=3600, help="how long it lasts (default 3600)")
    _common(parser, _linear_road, replaces=True)


def _add_pipeline(parser: argparse.ArgumentParser) -> None:
    _add_size(parser, rows=1_000_000, files=2, is_drawn=False)
    _common(parser, _pipeline, replaces=True)


def _add_size(parser: argparse.ArgumentParser, *, rows: int, files: int = 8, is_drawn: bool = True) -> None:
    """Add what every dataset of rows has; one that is drawn has a seed."""
    parser.add_argument("output", type=Path, help="folder to write")
    parser.add_argument("--rows", type=positive, default=rows)
    parser.add_argument("--files", type=positive, default=files)
    if is_drawn:
        parser.add_argument("--seed", type=int, default=1)


def _add_oracle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--input", type=Path, required=True, help="folder of the dataset")
    parser.add_argument("--output", type=Path, required=True, help="folder the job wrote")
    _common(parser, _oracle)


def _add_windows(parser: argparse.ArgumentParser) -> None:
    _add_oracle(parser)
    parser.add_argument("--late", type=Path, help="folder of the late side output")
    parser.add_argument("--window", type=_duration, default="1m", help="size (default 1m)")
    parser.add_argument("--bound", type=_duration, default="30s", help="out-of-orderness")
    parser.add_argument("--lateness", type=_duration, default="10s", help="allowed lateness")
    parser.set_defaults(command=_windows)


def _common(
    parser: argparse.ArgumentParser,
    command: Callable[[argparse.Namespace], int],
    *,
    replaces: bool = False,
) -> None:
    parser.add_argument("--threads", type=positive, default=2, help="Spark threads (default 2)")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (- for stdout)")
    if replaces:
        parser.add_argument("--replace", action="store_true", help="write another dataset anew")
    parser.set_defaults(command=command)


def _dataset(options: argparse.Namespace) -> int:
    request = dataset.TextRequest(
        sources=tuple(options.text),
        patterns=tuple(options.pattern) or texts.PATTERNS,
        size_max=options.size,
        files=options.files,
        repeat=options.repeat,
    )
    return _make(
        options,
        dataset.describe(request, dataset.find(request)),
        lambda spark: dataset.write(spark, request, options.output, replace=options.replace),
    )


def _temperature(options: argparse.Namespace) -> int:
    request = temperature.TemperatureRequest(
        rows=options.rows,
        files=options.files,
        motes=options.motes,
        seed=options.seed,
        bound_us=options.bound,
        late_us=options.late,
        late_share=options.late_share,
    )
    return _draw(options, temperature, request)


def _fraud(options: argparse.Namespace) -> int:
    request = fraud.FraudRequest(options.rows, options.files, options.entities, options.unknown_share, options.seed)
    return _draw(options, fraud, request)


def _spike(options: argparse.Namespace) -> int:
    return _draw(options, spike, spike.SpikeRequest(options.rows, options.files, options.motes, options.seed))


def _equipment(options: argparse.Namespace) -> int:
    return _draw(options, equipment, equipment.EquipmentRequest(options.rows, options.files, seed=options.seed))


def _linear_road(options: argparse.Namespace) -> int:
    request = linear_road.LinearRoadRequest(
        options.rows, options.files, options.segments, options.seconds, seed=options.seed
    )
    return _draw(options, linear_road, request)


def _pipeline(options: argparse.Namespace) -> int:
    return _draw(options, pipeline, pipeline.PipelineRequest(options.rows, options.files))


def _draw(options: argparse.Namespace, drawn: "Drawn[R_contra]", request: R_contra) -> int:
    """Write a dataset whose parts follow from the request."""
    return _make(
        options,
        drawn.describe(request),
        lambda spark: drawn.write(spark, request, options.output, replace=options.replace),
    )


def _make(
    options: argparse.Namespace,
    request: Mapping[str, Any],
    write: Callable[["SparkSession"], dict[str, Any]],
) -> int:
    """Write a dataset, unless the folder already has exactly this one. Spark is started only if needed."""
    begun = time.monotonic()
    fresh = not folders.is_current(options.output, request)
    marker = _with_spark(options, write) if fresh else folders.read_marker(options.output)
    assert marker is not None, "a current folder has a marker"
    sizes = marker["files"]
    rows = [(name, marker[name]) for name in ("rows", "text_bytes", "text_files") if name in marker]
    print(f"{options.output}: {'written' if fresh else 'already there'}")
    report.table(
        [
            *((name.replace("_", " "), value) for name, value in rows),
            ("files", len(sizes)),
            ("bytes of Parquet", sum(sizes.values())),
            ("seconds", round(time.monotonic() - begun, 1)),
        ]
    )
    report.write_json(options.json, {"folder": str(options.output), **marker})
    return 0


def _oracle(options: argparse.Namespace) -> int:
    verdict = _with_spark(options, lambda spark: word_oracle.check(spark, options.input, options.output))
    return _judge(options, verdict, [str(difference) for difference in verdict.first])


def _windows(options: argparse.Namespace) -> int:
    times = windows.Windowing(options.window, options.bound, options.lateness)
    places = windows.Folders(options.input, options.output, options.late)
    verdict = _with_spark(options, lambda spark: windows.check(spark, places, times))
    return _judge(options, verdict, list(verdict.first))


def _replay(options: argparse.Namespace) -> int:
    """Push with one Spark thread per partition, because all partitions must be sent at the same time."""
    begun = time.monotonic()
    proof = proof_of(options.trust, anybody=options.anybody)
    partitions = replay.partitions_of(options.announce, proof)
    options.threads = partitions
    request = replay.ReplayRequest(
        options.dataset,
        options.announce,
        options.rate,
        options.rows,
        options.trust,
        options.certificate_host,
        options.anybody,
    )
    pushed = _with_spark(options, lambda spark: replay.run(spark, request, partitions))
    rows, sent = sum(p.rows for p in pushed), sum(p.sent for p in pushed)
    facts: dict[str, object] = {
        "partitions": partitions,
        "rows": rows,
        "rows_sent_again": sent - rows,
        "dials": sum(p.dials for p in pushed),
        "seconds": round(time.monotonic() - begun, 1),
    }
    report.table([(name.replace("_", " "), value) for name, value in facts.items()])
    report.write_json(options.json, facts)
    return 0


def _judge(options: argparse.Namespace, verdict: "Judged", first: Sequence[str]) -> int:
    """Show a verdict. Returns exit code 0 if it is exact."""
    facts = verdict.as_dict()
    report.table([(name.replace("_", " "), value) for name, value in facts.items() if isinstance(value, int)])
    for line in first:
        print(f"  differs: {line}")
    print(f"exact: {'yes' if verdict.exact else 'NO'}")
    report.write_json(options.json, facts)
    return 0 if verdict.exact else DIFFERS


def _with_spark(options: argparse.Namespace, use: Callable[["SparkSession"], T]) -> T:
    try:  # only here: PySpark takes half a second and may not be installed
        from penstock_spark.session import SparkSettings, local_session  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"{error}: pip install 'penstock[spark]' brings what is missing") from error
    with local_session("penstock", SparkSettings(threads=options.threads)) as spark:
        return use(spark)


def positive(text: str) -> int:
    """Read a whole number above 0. Raises ArgumentTypeError."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return number


def quantity(text: str) -> int:
    """Read a quantity like 40M. Raises ArgumentTypeError."""
    return _unit(units.quantity_bytes, text)


def _duration(text: str) -> int:
    return _unit(units.duration_us, text)


def _unit(read: Callable[[str], int], text: str) -> int:
    try:
        return read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
