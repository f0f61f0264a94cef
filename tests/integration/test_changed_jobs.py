"""Jobs that change between two runs, on real processes: their output is exact across the change."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.local_job import wait_until
from tests.integration.test_command_line import penstock, words_in_order

LINES = [" ".join(f"word-{(7 * i + j) % 90}" for j in range(6)) for i in range(3_000)]
MORE = [f"word-{i % 90} noise-{i % 5} new-{i % 11}" for i in range(1_000)]
# No word of the first input is noise, so it does not matter when the filter came.
CODE = """\
import pyarrow as pa
import pyarrow.compute as pc

def no_noise(batch):
    return pc.invert(pc.starts_with(batch.column("word"), "noise-"))
"""


class Place:
    """The folders of one test: inputs, outputs, jobs and their state."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / "state"
        self.where = ("--dir", str(self.state))
        (root / "changed_steps.py").write_text(CODE)
        for name, lines in (("lines", LINES), ("more", MORE)):
            for number in (0, 1):
                (root / name).mkdir(exist_ok=True)
                table = pa.table({"line": lines[number::2]})
                pq.write_table(table, root / name / f"part-{number}.parquet")

    def folder(self, name: str) -> Path:
        return self.root / name

    def job(self, steps: list[dict[str, Any]], *, name: str = "words", **spec: Any) -> Path:
        """Write a job file; JSON is YAML."""
        plain = {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "StreamJob",
            "metadata": {"name": name},
            "spec": {
                "replicas": 2,
                "checkpoint": {"interval": "500ms"},
                "job": {"graph": {"steps": steps}},
                **spec,
            },
        }
        file = self.root / f"{name}.yaml"
        file.write_text(json.dumps(plain))
        return file

    def source(self, name: str, rate: int = 0) -> dict[str, Any]:
        given = {"path": str(self.folder(name)), "rate": str(rate)}
        columns = [{"name": "line", "type": "string"}]
        return {"name": name, "source": {"parquet": given, "columns": columns}}

    def sink(self, name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "sink": {"parquet": {"path": str(self.folder(name))}}, **more}

    def counted(self, name: str = "counts", rate: int = 0) -> list[dict[str, Any]]:
        """Return the word count as it was at first."""
        return [
            self.source("lines", rate),
            {"name": "words", "split": {"column": "line", "into": "word"}},
            count_step(name),
            self.sink("out"),
        ]

    def changed(self) -> list[dict[str, Any]]:
        """Return it with a source, a filter, a sink and tasks more, and in another order."""
        return [
            self.source("more"),
            {"name": "of-more", "split": {"column": "line", "into": "word"}},
            self.source("lines"),
            {"name": "words", "split": {"column": "line", "into": "word"}},
            {
                "name": "clean",
                "inputs": ["words", "of-more"],
                "filter": {"function": "changed_steps:no_noise"},
            },
            {**count_step("counts"), "parallelism": 3},
            self.sink("out", inputs=["counts"]),
            self.sink("copy", inputs=["counts"]),
        ]

    def run(self, file: Path, *more: str) -> "subprocess.CompletedProcess[str]":
        return penstock("run", str(file), *self.where, *more)

    def validate(self, file: Path, *more: str) -> "subprocess.CompletedProcess[str]":
        return penstock("validate", str(file), *self.where, *more)

    @contextmanager
    def running(self, file: Path) -> Iterator[None]:
        """Run until the first output, then what the test does, then wait for the end."""
        command = [sys.executable, "-m", "penstock.cli", "run", str(file), *self.where]
        with (self.root / "log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(lambda: any(self.folder("out").glob("*.parquet")))
            yield
            process.wait(60)
        finally:
            process.kill()
            process.wait()

    def stopped(self, *how: str) -> None:
        """Run the word count half-way and stop it."""
        with self.running(self.job(self.counted(rate=40))):
            done = penstock("stop", "words", *how, *self.where)
            assert done.returncode == 0, done.stderr
        assert 0 < words_in_order(self.folder("out")).total() < words_of(LINES).total()


def count_step(name: str) -> dict[str, Any]:
    compute = [{"name": "count", "function": "count"}]
    return {"name": name, "keyBy": ["word"], "aggregate": {"compute": compute}}


def words_of(*inputs: list[str]) -> Counter[str]:
    words = [word for lines in inputs for line in lines for word in line.split(" ")]
    return Counter(w for w in words if not w.startswith("noise-"))


def rows_of(folder: Path) -> dict[str, list[int]]:
    """Return the counts of each word in the order of the output."""
    found: dict[str, list[int]] = {}
    for file in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            found.setdefault(row["word"], []).append(row["count"])
    return found


def test_a_job_with_more_steps_sources_sinks_and_tasks_continues(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stopped()
    before = rows_of(place.folder("out"))
    changed = place.job(place.changed())
    said = place.validate(changed)
    assert ": the job takes over the state of: lines, counts\n" in said.stdout, said.stderr
    assert "sources, which are read from their beginning: more\n" in said.stdout
    done = place.run(changed)
    assert done.returncode == 0, done.stderr
    assert "which are read from their beginning: more\n" in done.stdout + done.stderr
    assert "takes over" not in done.stdout + done.stderr
    assert words_in_order(place.folder("out")) == words_of(LINES, MORE)
    after = rows_of(place.folder("out"))
    copied = {w: r for w in after if (r := after[w][len(before.get(w, [])) :])}
    assert rows_of(place.folder("copy")) == copied, "a new sink has all rows since, and no other"


def test_state_that_has_no_step_is_refused_then_given_up_by_name(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stopped()
    before = rows_of(place.folder("out"))
    renamed = place.job(place.counted("tally"))
    said = place.validate(renamed)
    assert (said.returncode, said.stdout) == (1, "")
    assert "step 'counts': its state" in said.stderr
    said = place.validate(renamed, "--drop-state", "counts")
    assert "has no state of these steps, which begin empty: tally\n" in said.stdout
    assert ": the job gives up the state of: counts\n" in said.stdout
    done = place.run(renamed)
    assert done.returncode == 1
    words = " ".join(done.stderr.split())
    assert "step 'counts': its state (keys [word: string], columns [count: int64]) is stored" in words
    assert "by --drop-state counts; or" in words
    assert rows_of(place.folder("out")) == before, "nothing was written"

    done = place.run(renamed, "--drop-state", "counts")
    assert done.returncode == 0, done.stderr
    total = words_of(LINES)
    for word, counts in rows_of(place.folder("out")).items():
        kept = before.get(word, [])
        assert counts == [*kept, *range(1, total[word] - len(kept) + 1)]


def test_a_changed_step_is_named_with_both_schemas(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stopped()
    steps = place.counted()
    steps[2]["keyBy"] = ["line"]
    del steps[1]
    done = place.run(place.job(steps))
    assert done.returncode == 1
    assert (
        "step 'counts': stored keys [word: string], columns [count: int64]; the job has [line: string], [count: int64]"
    ) in " ".join(done.stderr.split())
    done = place.run(place.job(place.counted()))
    assert done.returncode == 0, done.stderr
    assert words_in_order(place.folder("out")) == words_of(LINES)


def test_a_changed_job_of_another_name_goes_on_from_a_savepoint(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stopped("--savepoint", "end")
    before = rows_of(place.folder("out"))
    saved = place.state / "words" / "savepoints" / "end"
    steps = place.changed()
    steps[-2] = place.sink("elsewhere", inputs=["counts"])
    other = place.job(steps, name="more-words")
    said = place.validate(other, "--restore", str(saved))
    takes_over = "savepoint 'end' (checkpoint "
    assert said.stdout.splitlines()[1].startswith(takes_over), said.stderr
    assert ": the job takes over the state of: lines, counts\n" in said.stdout
    done = place.run(other, "--restore", str(saved))
    assert done.returncode == 0, done.stderr
    total = words_of(LINES, MORE)
    expected = {w: list(range(len(before.get(w, [])) + 1, n + 1)) for w, n in total.items()}
    assert rows_of(place.folder("elsewhere")) == {w: r for w, r in expected.items() if r}


SEEN = """\
import penstock as ps

@ps.record
class Line:
    line: str

@ps.record
class Count:
    line: str
    number: int

@ps.state
class Seen:
    number: int
    last: str = "none"

def count(r: Line, s: Seen, out: ps.Out[Count]):
    s.number += 1
    s.last = r.line
    out.emit(Count(r.line, s.number))
"""
NARROWER = SEEN.replace("number: int\n    last", "number: ps.int32\n    last")
RENAMED = SEEN.replace('last: str = "none"', 'note: str | None = ps.renamed("last")').replace("s.last", "s.note")


def typed(place: Place, rate: int) -> Path:
    step = {"name": "seen", "keyBy": ["line"], "process": {"function": "changed_seen:count"}}
    return place.job([place.source("lines", rate), step, place.sink("out")])


def test_a_restore_is_foretold_field_by_field(tmp_path: Path) -> None:
    place = Place(tmp_path)
    code = tmp_path / "changed_seen.py"
    code.write_text(SEEN)
    said = place.validate(typed(place, 40), "--against", "latest")
    assert said.returncode == 1
    assert "job 'words' has no checkpoint in" in said.stderr
    with place.running(typed(place, 40)):
        done = penstock("stop", "words", "--savepoint", "end", *place.where)
        assert done.returncode == 0, done.stderr

    job = typed(place, 0)
    code.write_text(NARROWER)
    for what in ("latest", str(place.state / "words" / "savepoints" / "end")):
        said = place.validate(job, "--against", what)
        assert said.returncode == 1
        assert "step 'seen': field number was int64 and is int32: stored keys [line: string]" in said.stderr

    code.write_text(RENAMED)
    said = place.validate(job, "--against", "latest")
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    at = lines.index("step 'seen':")
    assert lines[at + 1 : at + 3] == [
        "  number: int64 is taken over",
        "  note: string | None takes over the values of last: string",
    ]
    done = place.run(job)
    assert done.returncode == 0, done.stderr
    assert "step 'seen': field note: string | None takes over the values of last" in done.stdout + done.stderr
    found: dict[str, list[int]] = {}
    for file in sorted(place.folder("out").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            found.setdefault(row["line"], []).append(row["number"])
    assert found == {line: list(range(1, count + 1)) for line, count in Counter(LINES).items()}
