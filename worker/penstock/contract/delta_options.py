"""The options of the Delta Lake sink."""

from dataclasses import dataclass
from typing import Annotated

from penstock.contract.s3_options import (
    ROLL_BYTES,
    AccessKey,
    Endpoint,
    Region,
    RollBytes,
    SecretKey,
    SessionToken,
)
from penstock.contract.schema import Field, Fields, LongText


@dataclass(frozen=True, slots=True)
class DeltaOutput(Fields):
    """Options of the Delta Lake sink. Those of S3 are for a table in a bucket."""

    table: Annotated[
        LongText,
        Field(
            "table",
            "the table, which has to be there: a folder that all workers see, or s3://bucket/folder",
            pattern=r"s3://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[^?#]*)?|[^:]+",
            rule="a folder, or s3://bucket/folder",
        ),
    ]
    region: Region = None
    endpoint: Endpoint = None
    access_key: AccessKey = None
    secret_key: SecretKey = None
    session_token: SessionToken = None
    roll_bytes: RollBytes = ROLL_BYTES
