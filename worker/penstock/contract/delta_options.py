"""The options of the Delta Lake source and sink."""

from dataclasses import dataclass
from typing import Annotated

from penstock.base.errors import ConfigError
from penstock.contract.s3_options import (
    ROLL_BYTES,
    AccessKey,
    Endpoint,
    Region,
    RollBytes,
    SecretKey,
    SessionToken,
)
from penstock.contract.schema import Field, Fields, LongText, Quantity


@dataclass(frozen=True, slots=True)
class DeltaTableOptions(Fields):
    """Where a table is, and who asks. All but ``table`` are for a table in a bucket."""

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

    def __post_init__(self) -> None:
        """Raise ConfigError when an option would do nothing."""
        of_bucket = (
            ("region", self.region),
            ("endpoint", self.endpoint),
            ("accessKey", self.access_key),
            ("secretKey", self.secret_key),
            ("sessionToken", self.session_token),
        )
        for name in (name for name, given in of_bucket if given is not None):
            if not self.table.startswith("s3://"):
                raise ConfigError(
                    f"delta: {name} is for a table in a bucket, and {self.table} is a folder: leave it out"
                )


@dataclass(frozen=True, slots=True)
class DeltaInput(DeltaTableOptions):
    """Options of the Delta Lake source."""

    rate: Annotated[Quantity, Field("rate", "rows per second of each split, like 2k; 0: as fast as possible")] = 0
    follow: Annotated[
        float | None,
        Field(
            "follow",
            "seconds between two looks for new versions; the source has no end then, and reads rows that they add",
            minimum=0.1,
        ),
    ] = None
    skip_change_commits: Annotated[
        bool | None,
        Field(
            "skipChangeCommits",
            "with follow: leave out as a whole each version that removes rows (delete, update, merge, overwrite);"
            " without it such a version fails the job",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Raise ConfigError when an option would do nothing."""
        DeltaTableOptions.__post_init__(self)
        if self.skip_change_commits and self.follow is None:
            raise ConfigError(
                "delta: skipChangeCommits is for a table that is followed: give follow, too, or leave it out"
            )


@dataclass(frozen=True, slots=True)
class DeltaOutput(DeltaTableOptions):
    """Options of the Delta Lake sink."""

    roll_bytes: RollBytes = ROLL_BYTES
