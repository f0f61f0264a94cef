"""The options of the Iceberg source and sink."""

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
from penstock.contract.schema import Field, Fields, LongText, Quantity, SecretPlace

CATALOG_NAME = "default"
SQLITE = "sqlite:///"  # and the path of a file: a catalog without a server


@dataclass(frozen=True, slots=True)
class IcebergTableOptions(Fields):
    """Where a table is, and who asks. Those of S3 are for a table in a bucket whose keys the catalog does not give."""

    catalog: Annotated[
        LongText,
        Field(
            "catalog",
            "who knows the table: https://host/path (a REST catalog), or sqlite:///FILE that all workers see",
            pattern=r"https?://[^?#@]+|sqlite:///[^?#]+",
            rule="https://host/path, http:// where the network is trusted, or sqlite:///FILE",
            secret=True,
        ),
    ]
    table: Annotated[
        LongText,
        Field(
            "table",
            "the table, which has to be there: namespace.table",
            pattern=r"[^./ ]+(\.[^./ ]+)+",
            rule="namespace.table",
        ),
    ]
    warehouse: Annotated[
        LongText | None, Field("warehouse", "which warehouse of a REST catalog, where it has several")
    ] = None
    catalog_name: Annotated[str, Field("catalogName", "the name of the catalog in a file of SQLite", length_min=1)] = (
        CATALOG_NAME
    )
    token: Annotated[
        SecretPlace | None,
        Field("token", "where a token of the REST catalog is: secret:NAME/KEY, env:NAME or file:/PATH"),
    ] = None
    credential: Annotated[
        SecretPlace | None,
        Field("credential", "where ID:SECRET for tokens of the REST catalog (OAuth2) is, in the same way"),
    ] = None
    oauth2_server: Annotated[
        LongText | None,
        Field(
            "oauth2Server",
            "who gives tokens for `credential`; the catalog itself if left out",
            pattern=r"https?://[^?#@]+",
            rule="https://host/path",
        ),
    ] = None
    scope: Annotated[str | None, Field("scope", "the scope of such tokens; catalog if left out", length_min=1)] = None
    region: Region = None
    endpoint: Endpoint = None
    access_key: AccessKey = None
    secret_key: SecretKey = None
    session_token: SessionToken = None

    def __post_init__(self) -> None:
        """Raise ConfigError when an option would do nothing."""
        if self.catalog_name != CATALOG_NAME and not self.catalog.startswith(SQLITE):
            raise ConfigError(
                "iceberg: catalogName is for a catalog in a file of SQLite, and this is a REST catalog: give warehouse"
                " if it has several, or leave it out"
            )
        if self.credential is not None and self.token is not None:
            raise ConfigError("iceberg: credential is what a token is had for: give token or credential")
        for name, given in (("oauth2Server", self.oauth2_server), ("scope", self.scope)):
            if given is not None and self.credential is None:
                raise ConfigError(f"iceberg: {name} is for tokens that are had for a credential: give credential, too")


@dataclass(frozen=True, slots=True)
class IcebergInput(IcebergTableOptions):
    """Options of the Iceberg source."""

    rate: Annotated[Quantity, Field("rate", "rows per second of each split, like 2k; 0: as fast as possible")] = 0
    follow: Annotated[
        float | None,
        Field(
            "follow",
            "seconds between two looks for new snapshots; the source has no end then, and reads rows that they add",
            minimum=0.1,
        ),
    ] = None
    skip_change_commits: Annotated[
        bool | None,
        Field(
            "skipChangeCommits",
            "with follow: leave out as a whole each snapshot that removes rows; without it such a snapshot fails the"
            " job",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Raise ConfigError when an option would do nothing."""
        IcebergTableOptions.__post_init__(self)
        if self.skip_change_commits and self.follow is None:
            raise ConfigError(
                "iceberg: skipChangeCommits is for a table that is followed: give follow, too, or leave it out"
            )


@dataclass(frozen=True, slots=True)
class IcebergOutput(IcebergTableOptions):
    """Options of the Iceberg sink."""

    roll_bytes: RollBytes = ROLL_BYTES
