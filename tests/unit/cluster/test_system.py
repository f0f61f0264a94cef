"""The real clock and the real ids keep the contract that the fakes keep."""

from penstock.cluster.system import RandomIds, SystemClock
from tests.support import contracts


def test_the_clock_of_the_machine() -> None:
    contracts.check_clock(SystemClock())


def test_ids_of_the_machine() -> None:
    contracts.check_ids(RandomIds())
