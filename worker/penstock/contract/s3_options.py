"""The options of the S3 source and sink."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from penstock.base.errors import ConfigError
from penstock.contract.bad_records import OnBadLine
from penstock.contract.schema import Field, Fields, LongText, Quantity, SecretPlace

ROLL_BYTES = 32 * 1024 * 1024
_CHAIN = "Without it as the clients of AWS do: from the variables AWS_*, the role of the pod or of the machine"

Url = Annotated[
    LongText,
    Field(
        "url",
        "the bucket, and the folder in it if it is not the whole bucket: s3://bucket/folder",
        pattern=r"s3://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[^?#]*)?",
        rule="s3://bucket or s3://bucket/folder",
    ),
]
Region = Annotated[str | None, Field("region", "the region of the bucket; us-east-1 if nothing else says it")]
Endpoint = Annotated[
    LongText | None,
    Field(
        "endpoint",
        "where a store is that is not AWS's: https://host:port; the bucket is in the path",
        pattern=r"https?://[^/?#@]+/?",
        rule="https://host:port, or http:// where the network is trusted",
        secret=True,
    ),
]
AccessKey = Annotated[
    SecretPlace | None,
    Field(
        "accessKey",
        f"where the id of the access key is: secret:NAME/KEY, env:NAME or file:/PATH; with secretKey. {_CHAIN}",
    ),
]
SecretKey = Annotated[SecretPlace | None, Field("secretKey", "where the secret access key is, in the same way")]
SessionToken = Annotated[
    SecretPlace | None, Field("sessionToken", "where the token of temporary keys is, in the same way")
]


RollBytes = Annotated[
    Quantity,
    Field(
        "rollBytes",
        "bytes of rows in memory with which a task begins a new file, 32Mi if left out; each checkpoint does so, too",
        minimum="64Ki",
        maximum="64Mi",
    ),
]


Delimiter = Annotated[str, Field(pattern=r"[\t -!#-~]", rule="one character of ASCII, and no quote")]
ColumnNames = Annotated[str, Field(pattern=r"[^,]+(,[^,]+)*", rule="names with commas between")]
FolderNames = Annotated[
    ColumnNames,
    Field(
        "partitionBy",
        "names with commas between: the files are in folders year=2026/month=11, and these become columns, of the"
        " declared types, or texts where no columns are declared",
    ),
]


class FileFormat(StrEnum):
    """What a file holds."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class S3Place(Fields):
    """Where a folder of a bucket is, what its files hold, and who asks."""

    url: Url
    format: Annotated[
        FileFormat, Field("format", "what a file holds: parquet, json (lines) or csv (with a header)")
    ] = FileFormat.PARQUET
    region: Region = None
    endpoint: Endpoint = None
    access_key: AccessKey = None
    secret_key: SecretKey = None
    session_token: SessionToken = None


@dataclass(frozen=True, slots=True)
class S3Input(S3Place):
    """Options of the S3 source."""

    rate: Annotated[Quantity, Field("rate", "rows per second of each object, like 2k; 0: as fast as possible")] = 0
    partition_by: FolderNames | None = None
    follow: Annotated[
        float | None,
        Field(
            "follow",
            "seconds between two looks for new objects, not of parquet; the source has no end then, and reads objects"
            " that come later",
            minimum=0.1,
        ),
    ] = None
    delimiter: Annotated[Delimiter, Field("delimiter", "the character between two values of csv")] = ","
    on_error: OnBadLine | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError when an option would do nothing, whatever the files are."""
        if self.format != FileFormat.CSV and self.delimiter != ",":
            raise ConfigError(f"s3: delimiter is for format csv, and this one is {self.format}: leave it out")


@dataclass(frozen=True, slots=True)
class S3Output(S3Place):
    """Options of the S3 sink."""

    roll_bytes: RollBytes = ROLL_BYTES
    partition_by: Annotated[
        ColumnNames | None,
        Field(
            "partitionBy",
            "columns with commas between: rows go to folders by their values, as day=2026-11-26/country=de",
        ),
    ] = None
