import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, StorageError
from penstock.base.os_errors import is_lasting, may_pass, storage_error
from penstock.connectors.discard_sink import DiscardSink, DiscardSpec
from penstock.connectors.file_sink import ParquetSink
from penstock.folders import PrivateFolder

MAY_PASS = [
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ESTALE,
    errno.EIO,
    errno.ETIMEDOUT,
    errno.ENOMEM,
    errno.EMFILE,
    errno.EINTR,
]
LASTS = [errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR]


def of(number: int) -> OSError:
    return OSError(number, os.strerror(number), "/some/place")


@pytest.mark.parametrize("number", MAY_PASS)
def test_an_error_that_may_pass_is_tried_again(number: int) -> None:
    found = storage_error("file sink: cannot write to /some/place", of(number))
    assert isinstance(found, StorageError)
    assert os.strerror(number) in str(found)
    assert may_pass(of(number))


@pytest.mark.parametrize("number", LASTS)
def test_an_error_that_lasts_is_the_users_and_has_a_remedy(number: int) -> None:
    found = storage_error("file sink: cannot write to /some/place", of(number))
    assert isinstance(found, ConfigError)
    assert str(found).startswith(f"file sink: cannot write to /some/place: {os.strerror(number)}: ")
    assert is_lasting(of(number))
    assert not may_pass(of(number))


def test_content_that_is_wrong_does_not_become_right() -> None:
    assert not may_pass(OSError("Couldn't deserialize thrift"))
    assert not may_pass(of(errno.ENOENT))
    assert not may_pass(ValueError("no number"))


def a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file"


def test_a_file_in_the_place_of_a_folder_is_the_users(tmp_path: Path) -> None:
    place = a_file(tmp_path)
    sink = ParquetSink("out", str(place), pa.schema([("n", pa.int64())]))
    with pytest.raises(ConfigError, match="name another folder"):
        sink.claim("job", fresh=True)
    sink.close()
    with pytest.raises(ConfigError, match="name another folder"):
        DiscardSink("out", pa.schema([]), DiscardSpec(report=str(place))).claim("job", fresh=True)
    with pytest.raises(ConfigError, match="no link"):
        PrivateFolder(place)
