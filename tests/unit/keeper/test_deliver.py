"""What a keeper takes from other keepers: only messages of its own job."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.base.errors import PeerError
from penstock.contract.control_messages import Envelope, Start
from penstock.contract.ids import Attempt, JobUid, Ordinal, Term
from penstock.keeper.keeper import Keeper
from penstock.keeper.keeper_messages import ForMember, KeeperInbox


def test_a_message_of_another_job_is_refused() -> None:
    keeper = cast(Any, SimpleNamespace(_launch=SimpleNamespace(job_uid=JobUid("mine")), inbox=KeeperInbox()))
    with pytest.raises(PeerError, match="another job"):
        Keeper._deliver(keeper, Envelope(JobUid("other"), Term(1), Ordinal(0), Start(Attempt(1))))
    assert keeper.inbox.take(0) is None
    Keeper._deliver(keeper, Envelope(JobUid("mine"), Term(1), Ordinal(0), Start(Attempt(1))))
    assert isinstance(keeper.inbox.take(0), ForMember)
