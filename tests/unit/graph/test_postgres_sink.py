"""A job with a PostgreSQL sink: rows of a key go to one task, and no message shows a secret."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.plan import Partitioning
from penstock.graph import load_job
from penstock.graph.shape_checks import check_shape
from tests.unit.graph.test_bad_graphs import graph_file, message

URI = "postgresql://writer@db:5432/shop"


def sink(uri: str = URI, more: str = "") -> str:
    return f'{{name: out, sink: {{postgres: {{uri: "{uri}", table: words{more}}}}}}}'


def test_rows_with_equal_keys_go_to_one_task(tmp_path: Path) -> None:
    keyed = load_job(graph_file(tmp_path, sink(more=', keyColumns: "word, n"')), None)
    (entry,) = keyed.graph.steps[-1].inputs
    assert (entry.partitioning, entry.keys) == (Partitioning.KEY, ("word", "n"))
    assert [edge.partitioning for edge in keyed.plan.edges] == [Partitioning.KEY]
    added = load_job(graph_file(tmp_path, sink()), None)
    assert added.plan.edges == ()


def test_a_key_column_that_is_not_there_or_a_second_distribution_is_refused(tmp_path: Path) -> None:
    assert "did you mean 'word'?" in message(graph_file(tmp_path, sink(more=", keyColumns: wrod")))
    twice = sink(more=", keyColumns: word").replace("name: out,", "name: out, keyBy: [ts],")
    assert "its rows go to tasks by the target's key (word): take keyBy or partition away" in message(
        graph_file(tmp_path, twice)
    )


@pytest.mark.parametrize(
    ("uri", "more", "said"),
    [
        ("postgresql://writer:hunter2@db/shop", "", "without a password: give `password`, which says where it is"),
        ("postgresql://db/shop#hunter2", "", "without a password"),
        ("postgresql://db/shop?password=hunter2", "", "without a password: give `password`"),
        ("postgresql://db/shop?sslmode=require&%70assword=hunter2", "", "without a password"),
        ("postgresql://db/shop?sslmode=require&sslpassword=hunter2", "", "without a password"),
        (URI, ", password: hunter2", "env:NAME (a variable of the workers) or file:/PATH, never the secret itself"),
    ],
)
def test_a_secret_in_a_job_is_refused_and_not_shown(tmp_path: Path, uri: str, more: str, said: str) -> None:
    told = message(graph_file(tmp_path, sink(uri, more)))
    assert said in told
    assert "hunter2" not in told


def test_python_says_the_same() -> None:
    def job(password: str) -> ps.Job:
        made = ps.Job()
        sink = ps.postgres("words", uri=URI, key_columns=["word"], password=password)
        made.source("words", ps.generator(rows=1)).sink("out", sink)
        return made

    assert check_shape(job("env:PG").draft, "j").steps[-1].inputs[0].keys == ("word",)
    with pytest.raises(ConfigError, match="the text, not shown here, does not fit") as told:
        check_shape(job("hunter2").draft, "j")
    assert "hunter2" not in str(told.value)
