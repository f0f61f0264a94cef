"""The server of the tests keeps what S3 promises, so that the connectors are judged by a real one."""

import pytest

from tests.support.s3 import S3, Refused
from tools.servers.s3 import S3Server


def test_what_is_written_is_read_and_outlives_a_server_that_was_killed(s3: S3, s3_server: S3Server) -> None:
    bucket, pid = s3.bucket(), s3_server.pid
    for name in ("a/one", "a/two words", "b"):
        s3.write(bucket, name, name.encode())
    s3_server.kill()
    s3_server.start()
    assert s3_server.pid != pid
    assert s3.names(bucket) == ["a/one", "a/two words", "b"]
    assert s3.names(bucket, "a/") == ["a/one", "a/two words"]
    assert s3.read(bucket, "a/two words") == b"a/two words"
    s3.delete(bucket, "b")
    assert s3.names(bucket) == ["a/one", "a/two words"]


def test_a_wrong_secret_is_refused(s3: S3) -> None:
    with pytest.raises(Refused, match=r"403.*SignatureDoesNotMatch"):
        S3(s3.endpoint, "wrong").names(s3.bucket())
