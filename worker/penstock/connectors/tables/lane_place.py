"""Where a lane is in the log of a table: the whole state of a lane."""

import json
from dataclasses import asdict, dataclass

from penstock.base.errors import PeerError, StateError
from penstock.contract.codec import parsed


@dataclass(frozen=True, slots=True)
class LanePlace:
    """Row ``row`` of the file number ``file`` among those that ``version`` gives the lane; with ``whole`` behind it.

    ``table`` is the id of the table, and ``snapshot`` the version that is read whole.
    """

    lane: int
    lanes: int
    table: str
    snapshot: int
    version: int
    file: int = 0
    row: int = 0
    whole: bool = False

    @property
    def behind_snapshot(self) -> bool:
        """Whether the snapshot was read to its end."""
        return self.whole or self.version != self.snapshot

    def as_json(self) -> str:
        """Return the canonical JSON that checkpoints hold."""
        plain = {name: value for name, value in asdict(self).items() if value or name != "whole"}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def parse_place(text: str) -> LanePlace:
    """Read what :meth:`LanePlace.as_json` wrote. Raises StateError on anything else."""
    try:
        return LanePlace(**parsed(text))
    except (PeerError, TypeError) as error:
        raise StateError(f"a checkpoint describes a lane of a table as {text!r}: {error}") from error
