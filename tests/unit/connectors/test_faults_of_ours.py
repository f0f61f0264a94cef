"""Only what a client and its storage say may be tried again without an end. A fault of our own code comes out."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from pydantic import TypeAdapter, ValidationError
from pyiceberg.exceptions import ServerError
from requests.exceptions import ConnectionError as NoConnection
from sqlalchemy.exc import OperationalError

from penstock.base.errors import StorageError
from penstock.connectors.delta.client import DeltaPlace
from penstock.connectors.iceberg.client import IcebergPlace
from penstock.connectors.s3.object_folder import ObjectFolder
from penstock.contract.delta_options import DeltaOutput
from penstock.contract.iceberg_options import IcebergOutput

Asked = Callable[[], AbstractContextManager[object]]


def unparsed() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("no number")
    return caught.value


DELTA = (DeltaError("no log"), OSError("timed out"), Exception("Parquet error: no footer"))
ICEBERG = (ServerError("503"), NoConnection(), OSError("stale"), OperationalError("x", {}, OSError()), unparsed())
S3 = (OSError("timed out"),)
OURS = (TypeError("ours"), KeyError("ours"), AssertionError("ours"), ValueError("ours"), pa.ArrowInvalid("ours"))


@pytest.fixture(params=[("delta", DELTA), ("iceberg", ICEBERG), ("s3", S3)], ids=lambda each: each[0])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Asked, tuple[Exception, ...]]:
    kind, theirs = request.param
    match kind:
        case "delta":
            return DeltaPlace(DeltaOutput(str(tmp_path)), "make it").asked, theirs
        case "iceberg":
            return IcebergPlace(IcebergOutput("a.b", "sqlite:///c"), "make it").asked, theirs
        case _:
            folder = ObjectFolder("s3://lake/words", threading.Event)
            return lambda: folder._asked("name"), theirs


def test_a_fault_of_ours_is_not_one_of_storage(place: tuple[Asked, tuple[Exception, ...]]) -> None:
    asked, theirs = place
    for error in theirs:
        with pytest.raises(StorageError), asked():
            raise error
    for fault in OURS:
        with pytest.raises(type(fault), match="ours"), asked():
            raise fault
