from pathlib import Path

from bench.jobs import job_file
from bench.limits import generator_rows_per_s
from bench.oracle import words_spec
from bench.own import OwnWords
from bench.scenario import Scenario, load
from penstock.connectors.generator import WordSource
from penstock.ports import GatheringReader, SplitReader
from tests.unit.bench.test_compare import SMALL


def words(reader: SplitReader) -> list[str]:
    found: list[str] = []
    while (read := reader.read(1000)) is not None:
        found += read.batch.column("word").to_pylist()
    return found


def test_a_users_source_returns_the_generators_words_without_gather(tmp_path: Path) -> None:
    spec = words_spec(SMALL)
    built_in, own = WordSource(spec), OwnWords(spec, tmp_path)
    assert own.splits() == built_in.splits()
    for state in own.splits():
        reader = own.open(state)
        assert isinstance(built_in.open(state), GatheringReader)
        assert not isinstance(reader, GatheringReader)
        assert words(reader) == words(built_in.open(state))
        assert reader.state().finished


def test_the_sweep_of_batches_uses_a_users_source(tmp_path: Path) -> None:
    for run in load("sweep-batch").runs():
        assert job_file(run, tmp_path / "report")["spec"]["job"]["entrypoint"] == "bench.own:job"


def test_the_rate_of_a_source_alone_is_measured_with_the_same_source() -> None:
    one = Scenario("s", "t", kind="own", keys=50, payload=4, batch_rows=1, rows=10)
    assert generator_rows_per_s(one) > 0
