"""Where a split of a topic stands. A split is a lane of partitions: partition p of n lanes is in lane p % n.

A topic has as many lanes as it had partitions when the job began. So each split is one partition, and a
partition that is added later belongs to the split that it is congruent to: no other task has to hear of it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.base.errors import PeerError, StateError
from penstock.base.values import replace
from penstock.contract.codec import parsed

EARLIEST = -2  # the client's number for the first row that is there


@dataclass(frozen=True, slots=True)
class LanePosition:
    """The positions in one lane of a topic.

    ``next`` is the offset of the next record of each partition, or ``EARLIEST`` while none was read. ``end`` has the
    offsets at which a bounded source ends, None without an end. ``topic_id`` is the cluster's own id of the topic,
    empty when the brokers have none.
    """

    topic: str
    topic_id: str
    lane: int
    lanes: int
    next: Mapping[int, int] = field(default_factory=dict)
    end: Mapping[int, int] | None = None

    def as_json(self) -> str:
        """Return the canonical JSON that checkpoints hold."""
        plain = {
            "topic": self.topic,
            "id": self.topic_id,
            "lane": self.lane,
            "lanes": self.lanes,
            "next": _plain(self.next),
            "end": None if self.end is None else _plain(self.end),
        }
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))

    def at(self, positions: Mapping[int, int]) -> "LanePosition":
        """Return the same lane at other positions."""
        return replace(self, next=dict(positions))

    def holds(self, partition: int) -> bool:
        """Say whether a partition belongs to this lane."""
        return partition % self.lanes == self.lane

    @property
    def finished(self) -> bool:
        """Whether every partition has reached its end."""
        return self.end is not None and all(self.next.get(p, EARLIEST) >= end for p, end in self.end.items())


def parse_position(text: str) -> LanePosition:
    """Read what :meth:`LanePosition.as_json` wrote. Raises StateError on anything else."""
    try:
        plain = parsed(text)
        end = None if plain["end"] is None else _numbers(plain["end"])
        lane, lanes = int(plain["lane"]), int(plain["lanes"])
        return LanePosition(str(plain["topic"]), str(plain["id"]), lane, lanes, _numbers(plain["next"]), end)
    except (PeerError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise StateError(f"a checkpoint describes a split of a Kafka topic as {text!r}: {error}") from error


def _plain(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _numbers(plain: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in plain.items()}
