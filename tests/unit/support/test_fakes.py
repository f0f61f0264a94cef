import pyarrow as pa

from penstock.contract.ids import Ordinal, StageIndex, TaskId
from tests.support import contracts, fakes

ROWS = pa.record_batch({"a": [1, 2, 3]})


def test_clock() -> None:
    contracts.check_clock(fakes.FakeClock())


def test_ids() -> None:
    contracts.check_ids(fakes.FakeIds())


def test_meta_store() -> None:
    contracts.check_meta_store(fakes.FakeMetaStore)


def test_lease_store() -> None:
    contracts.check_lease_store(fakes.FakeLeaseStore)


def test_blob_store() -> None:
    contracts.check_blob_store(fakes.FakeBlobStore)


def test_source() -> None:
    contracts.check_source(fakes.FakeSource({"x": ROWS, "y": ROWS.slice(1)}))


def test_sink() -> None:
    folder = fakes.FakeFolder()
    task = TaskId(StageIndex(1), Ordinal(0), 0)

    def visible() -> list[object]:
        batches = [batch for name in sorted(folder.visible) for batch in folder.visible[name]]
        return [row for batch in batches for row in batch.to_pylist()]

    def make() -> tuple[fakes.FakeSinkWriter, fakes.FakeSinkPublisher]:
        return fakes.FakeSinkWriter(folder, "out", task), fakes.FakeSinkPublisher(folder)

    contracts.check_sink(make, ROWS, visible)
    contracts.check_staging(make, ROWS)
