import json
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.contract import pod
from penstock.keeper.pod_platform import (
    TrustError,
    VolumeError,
    check_volume,
    control_settings,
    judge,
    read_mounted,
    say_why,
)
from tests.support.certificates import trust

JOB = {
    "apiVersion": "penstock.dev/v1alpha1",
    "kind": "StreamJob",
    "metadata": {"name": "words", "namespace": "team", "uid": "uid-1"},
    "spec": {
        "job": {"entrypoint": "package.module:function"},
        "checkpoint": {"interval": "3s", "retain": 5},
    },
}


def mount(root: Path, job: object = JOB, *, secret: bool = True) -> dict[str, str]:
    """What the operator renders, below ``root``."""
    file = Path(pod.below(str(root), pod.JOB_FILE))
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(job))
    if secret:
        folder = Path(pod.below(str(root), pod.TRUST_FOLDER))
        folder.mkdir(parents=True)
        mine = trust(pod.certificate_host("words", "team"))
        for name, data in (
            (pod.CA_KEY, mine.ca),
            (pod.CERTIFICATE_KEY, mine.certificate),
            (pod.PRIVATE_KEY, mine.key),
            (pod.WORKER_KEY, mine.secret),
        ):
            (folder / name).write_bytes(data)
    return {
        pod.ENV_ROOT: str(root),
        pod.ENV_POD_NAME: "words-worker-11",
        pod.ENV_POD_UID: "pod-uid",
        pod.ENV_POD_IP: "10.0.0.7",
        pod.ENV_NAMESPACE: "team",
        pod.ENV_GRACE_S: "60",
    }


def test_a_pod_finds_out_who_it_is(tmp_path: Path) -> None:
    found = read_mounted(mount(tmp_path))
    assert (found.ordinal, found.job_uid, found.pod_uid) == (11, "uid-1", "pod-uid")
    assert found.grace_s == 60.0
    assert found.trust is not None
    assert found.trust.now.host == "words.team.job.penstock.dev"
    settings = control_settings(found.job)
    assert (settings.checkpoint_interval_s, settings.retain) == (3.0, 5)


def test_without_mtls_no_certificates_are_asked_for(tmp_path: Path) -> None:
    spec = {"job": {"entrypoint": "a:b"}, "security": {"mtls": False}}
    assert read_mounted(mount(tmp_path, {**JOB, "spec": spec}, secret=False)).trust is None


def test_with_mtls_missing_certificates_are_an_error_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(TrustError, match=r"tls/worker\.key: No such file"):
        read_mounted(mount(tmp_path, secret=False))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({pod.ENV_POD_NAME: "words"}, "NAME-ORDINAL"),
        ({pod.ENV_POD_UID: ""}, "PENSTOCK_POD_UID is not set"),
        ({pod.ENV_NAMESPACE: "others"}, "namespace 'team', not 'others'"),
        ({pod.ENV_GRACE_S: "long"}, "whole number"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_mounted({**mount(tmp_path), **changes})


def test_a_job_without_a_uid_is_refused(tmp_path: Path) -> None:
    nobodys = {**JOB, "metadata": {"name": "words", "namespace": "team"}}
    with pytest.raises(ConfigError, match=r"metadata\.uid is missing"):
        read_mounted(mount(tmp_path, nobodys))


def test_a_volume_that_cannot_be_written_to_is_found_at_once(tmp_path: Path) -> None:
    check_volume(tmp_path / "team" / "words" / "uid-1")
    assert list((tmp_path / "team" / "words" / "uid-1").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(VolumeError, match="ReadWriteMany claim"):
        check_volume(tmp_path / "file" / "words")


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (TrustError("t"), 2, "CertificateInvalid"),
        (ConfigError("c"), 2, "ConfigInvalid"),
        (VolumeError("v"), 3, "CheckpointVolumeUnusable"),
        (StorageError("s"), 3, "CheckpointVolumeUnusable"),
        (StateError("s"), 3, "StateUnusable"),
        (ZeroDivisionError("z"), 1, "Crashed"),
    ],
)
def test_every_end_has_a_reason(tmp_path: Path, error: Exception, status: int, reason: str) -> None:
    code, ended = judge(error)
    assert (code, ended.reason) == (status, reason)
    assert reason in pod.TERMINATIONS
    say_why(ended, tmp_path / "termination-log")
    assert json.loads((tmp_path / "termination-log").read_text())["reason"] == reason


def test_a_long_reason_fits_what_the_kubelet_keeps(tmp_path: Path) -> None:
    say_why(pod.Termination("Crashed", "\n" * 10_000), tmp_path / "termination-log")
    assert len((tmp_path / "termination-log").read_bytes()) <= 4096
