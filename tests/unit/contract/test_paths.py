"""Paths of savepoints: each part names something, wherever it is asked."""

import pytest

from penstock.base.errors import ConfigError
from penstock.contract import pod
from penstock.contract.job_reader import read_stream_job
from penstock.contract.schema import PATH_RULE, Plain, plain_parts
from penstock.keeper.savepoint_copies import read_snapshot
from penstock.protocol import keeper_core_messages as km
from penstock_operator.reconcile.accept import SpecRefusedError, restore_source
from tests.unit.operator.observing import spec_of, target_for

REFUSED = [
    "apps//savepoints/a",
    "apps/./savepoints/a",
    "apps/../other/savepoints/a",
    "apps/wc/savepoints/a/",
    "apps/wc/savepoints/..",
    "./apps/wc/savepoints/a",
    "//apps/wc/savepoints/a",
    f"{pod.CHECKPOINT_FOLDER}//apps/wc/savepoints/a",
    f"{pod.CHECKPOINT_FOLDER}/apps//savepoints/a",
    "apps/wc/savepoints/a\n",
    "apps/wc\x00/savepoints/a",
    "/",
    "..",
]
TAKEN = ["apps/wc/savepoints/a", "/apps/wc/.hidden/..a/...", "apps/wc/savepoints/a.b-c ü"]


@pytest.mark.parametrize("path", REFUSED)
def test_a_path_that_means_another_folder_is_refused_by_all_alike(path: str) -> None:
    assert plain_parts(path) is None
    with pytest.raises(SpecRefusedError):
        restore_source(target_for(spec_of()), path)
    found: Plain = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": "wc", "namespace": "apps"},
        "spec": spec_of(restore={"nonce": "1", "path": path}),
    }
    with pytest.raises(ConfigError, match=r"spec\.restore\.path.* does not fit: a path without an"):
        read_stream_job(found, cluster=True)
    told = read_snapshot(km.ReadSnapshot(1, path))
    assert isinstance(told, km.ImportFailed)
    assert PATH_RULE in told.reason


@pytest.mark.parametrize("path", TAKEN)
def test_a_path_that_means_what_it_names_is_taken(path: str) -> None:
    parts = plain_parts(path)
    assert parts == path.removeprefix("/").split("/")
    assert restore_source(target_for(spec_of()), path)[1].endswith("/".join(parts))


def test_a_mount_has_a_jobs_folder_and_never_a_namespaces() -> None:
    source, _ = restore_source(target_for(spec_of()), "apps/other/savepoints/a")
    assert source is not None
    assert len(source.folder.split("/")) == 2
    assert all(source.folder.split("/"))
