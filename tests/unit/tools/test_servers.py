"""What the servers of tests are made of is checked file by file."""

import hashlib
from pathlib import Path

import pytest

from tools.servers.fetched import ServerMissing, locked, needed, wrong


def test_a_file_that_is_missing_altered_or_not_wanted_is_named(tmp_path: Path) -> None:
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_text(name)
    wanted = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.jar", "b.jar")}
    assert wrong(tmp_path, wanted) == []
    (tmp_path / "a.jar").write_text("other")
    (tmp_path / "c.jar").touch()
    assert wrong(tmp_path, {**wanted, "d.jar": ""}) == ["a.jar", "c.jar", "d.jar"]
    assert wrong(tmp_path / "none", wanted) == ["a.jar", "b.jar"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("kafka", "kafka_2.13-4.4.0.jar"),
        ("s3proxy", "s3proxy-4.1.0.jar"),
        ("table_spark", "delta-spark_4.1_2.13-4.4.0.jar"),
    ],
)
def test_every_file_of_a_server_has_a_hash(name: str, file: str) -> None:
    files = locked(name)
    assert file in files
    assert all(name.endswith(".jar") and len(digest) == 64 for name, digest in files.items())


def test_a_command_that_is_missing_is_named_with_its_remedy() -> None:
    with pytest.raises(ServerMissing, match=r"no 'no-such-command' here: install it"):
        needed("no-such-command", "install it")
