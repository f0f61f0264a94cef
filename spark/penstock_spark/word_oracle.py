"""The oracle of word count: Spark counts the words of the dataset, and checks every output row.

The output is exact if it has, for every word with n occurrences in the dataset, the counts 1 to n,
each once and in this order, and if it has no other word. Rows are ordered by file name, then by row.

    dataset --Spark SQL--> (word, n) ------------------------------------+-- per word: n rows,
    output --runs.py--> (word, file, row, first, last) --Spark window----+   joined up from 1?
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError, StateError
from penstock.base.values import replace
from penstock_spark import folders, runs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLES_MAX = 10

EXPECTED = """
select word, count(*) as expected from (
    select explode(
        if(element_at(parts, -1) = '', slice(parts, 1, size(parts) - 1), parts)
    ) as word
    from (select split(line, ' ', -1) as parts from input where line is not null)
) group by word
"""

CHAINED = """
select word, file, row, first, last, before, first = before + 1 as joined from (
    select *, coalesce(lag(last) over (partition by word order by file, row), 0) as before from runs
)
"""

COMPARED = """
select coalesce(e.word, f.word) as word, coalesce(expected, 0) as expected,
       coalesce(found, 0) as found, coalesce(breaks, 0) as breaks
from expected e full outer join (
    select word, sum(last - first + 1) as found, count_if(not joined) as breaks
    from chained group by word
) f on e.word <=> f.word
"""

TOTALS = """
select count_if(expected > 0) as words_expected, count_if(found > 0) as words_found,
       coalesce(sum(expected), 0) as rows_expected, coalesce(sum(found), 0) as rows_found,
       count_if(expected <> found or breaks > 0) as words_differing
from compared
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A word whose output is wrong. ``file`` and ``row`` are the place of the first wrong count."""

    word: str | None
    expected: int
    found: int
    problem: str
    file: str | None = None
    row: int | None = None

    def __str__(self) -> str:
        """Return a description in one line."""
        place = "" if self.file is None else f" (file {self.file}, row {self.row})"
        return f"{self.word!r}: {self.problem}{place}; expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class OracleVerdict:
    """The result of the comparison, with the numbers of rows and words."""

    words_expected: int
    words_found: int
    rows_expected: int
    rows_found: int
    words_differing: int
    input_files: int
    output_files: int
    first: tuple[Difference, ...] = ()

    @property
    def exact(self) -> bool:
        """Return whether no row differs."""
        return self.words_differing == 0

    def as_dict(self) -> dict[str, object]:
        """Return what the JSON report holds."""
        return {"exact": self.exact, **asdict(self)}


def check(spark: "SparkSession", dataset: Path, output: Path) -> OracleVerdict:
    """Compare an output folder with the dataset it was made from.

    Raises ConfigError for folders that are missing or empty, StateError for an output file that
    cannot be read.
    """
    inputs = folders.parquet_files(dataset)
    folders.demand_columns(inputs, ["line"])
    outputs = output_files(output)
    with tempfile.TemporaryDirectory(prefix="penstock-oracle-") as scratch:
        _runs_table(spark, outputs, Path(scratch)).createOrReplaceTempView("runs")
        spark.read.schema("line string").parquet(*map(str, inputs)).createOrReplaceTempView("input")
        for name, query in {"expected": EXPECTED, "chained": CHAINED}.items():
            spark.sql(query).createOrReplaceTempView(name)
        compared = spark.sql(COMPARED).cache()
        compared.createOrReplaceTempView("compared")
        verdict = _totals(spark, len(inputs), len(outputs))
        if not verdict.exact:
            verdict = replace(verdict, first=tuple(_differences(spark)))
        compared.unpersist()
    return verdict


def output_files(output: Path) -> list[Path]:
    """List the output files. An empty folder has no rows. A missing folder is an error."""
    if not output.is_dir():
        raise ConfigError(f"there is no output folder {output}: name the one the job wrote to")
    return sorted(p for p in output.iterdir() if p.name.endswith(folders.SUFFIX))


def _runs_table(spark: "SparkSession", outputs: Sequence[Path], scratch: Path) -> "DataFrame":
    """Compress every output file to runs, each in its own Spark task, and read the runs."""
    pq.write_table(runs.SCHEMA.empty_table(), scratch / f"none{folders.SUFFIX}")
    if outputs:
        numbered = [(index, str(path)) for index, path in enumerate(outputs)]
        problems = (
            spark.sparkContext.parallelize(numbered, len(numbered))
            .mapPartitions(partial(_compress, str(scratch)))
            .collect()
        )
        if problems:
            raise StateError(problems[0])
    return spark.read.parquet(str(scratch))


def _compress(scratch: str, numbered: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Write the runs of each file. Yields the error of a file as text instead of raising it.

    An error that a Spark task raises would arrive as a Java stack trace of a page.
    """
    for index, path in numbered:
        try:
            with pq.ParquetWriter(Path(scratch, f"{index:08d}{folders.SUFFIX}"), runs.SCHEMA) as out:
                for batch in runs.runs_in_file(Path(path)):
                    out.write_table(pa.Table.from_batches([batch]))
        except StateError as error:
            yield str(error)


def _totals(spark: "SparkSession", input_files: int, output_files: int) -> OracleVerdict:
    row = spark.sql(TOTALS).collect()[0]
    return OracleVerdict(**row.asDict(), input_files=input_files, output_files=output_files)


def _differences(spark: "SparkSession") -> Iterator[Difference]:
    """Describe the first words that differ, by name: how many rows, and the first wrong row."""
    words = spark.sql(
        f"select * from compared where expected <> found or breaks > 0 order by word limit {EXAMPLES_MAX}"
    )
    words.createOrReplaceTempView("differing")
    breaks = spark.sql("select c.* from chained c join differing d on c.word <=> d.word where not joined").collect()
    for word in words.collect():
        places = sorted((b.file, b.row, b.before, b.first) for b in breaks if b.word == word.word)
        yield _explain(word.word, word.expected, word.found, places)


def _explain(word: str | None, expected: int, found: int, places: list[tuple[str, int, int, int]]) -> Difference:
    if expected == 0:
        problem = "is not in the dataset"
    elif found == 0:
        problem = "is missing from the output"
    elif not places and found < expected:
        problem = f"ends at {found} of {expected}: rows are missing at the end"
    elif not places:
        problem = f"goes on to {found} beyond {expected}: there are rows too many"
    else:
        before, first = places[0][2:]
        shown = "null" if first == runs.NO_COUNT else str(first)
        kind = {True: "rows are lost", False: "rows are repeated or out of order"}[first > before + 1]
        problem = f"after count {before} comes {shown}: {kind}"
    place = places[0] if places else (None, None)
    return Difference(word, expected, found, problem, place[0], place[1])
