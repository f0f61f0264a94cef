"""What happens to a target, and to whom."""

from dataclasses import dataclass
from enum import Enum, auto


class Trouble(Enum):
    """What goes wrong beside processes and answers."""

    NONE = auto()
    LOST_MARKERS = auto()  # somebody removes them, or they expire
    LOST_AT_REST = auto()  # the same, while all that is committed is visible, and another worker goes on
    OLD_STATE = auto()  # metadata and volume are replaced by an older copy
    TAKES_LESS = auto()  # the target refuses rows that it took when the job began
    GIVEN_UP = auto()  # the user gives output up
    OTHERS = auto()  # others write to the table, compact it, and have old files removed


@dataclass(frozen=True, slots=True)
class PublisherScenario:
    """``target`` is a name of ``targets.TARGETS``. ``refused_early``: some rows are refused when they are written."""

    name: str
    target: str
    trouble: Trouble = Trouble.NONE
    refused_early: bool = False


LAKES = ("delta", "iceberg")  # targets whose rows are in files
SCENARIOS = {
    scenario.name: scenario
    for target in ("topic", "table", *LAKES)
    for scenario in (
        PublisherScenario(f"plain-{target}", target),
        PublisherScenario(f"lost-{target}", target, Trouble.LOST_MARKERS),
        PublisherScenario(f"rest-{target}", target, Trouble.LOST_AT_REST),
        PublisherScenario(f"old-{target}", target, Trouble.OLD_STATE),
        PublisherScenario(f"less-{target}", target, Trouble.TAKES_LESS),
        PublisherScenario(f"given-up-{target}", target, Trouble.GIVEN_UP),
        PublisherScenario(f"early-{target}", "upserts" if target == "table" else target, refused_early=True),
        *((PublisherScenario(f"others-{target}", target, Trouble.OTHERS),) if target in LAKES else ()),
    )
}
