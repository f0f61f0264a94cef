"""How an asynchronous call of a user function is made: order, attempts, and what is remembered."""

from enum import StrEnum
from typing import Annotated

from penstock.base import limits
from penstock.contract.call_types import Reference
from penstock.contract.codec import Message
from penstock.contract.schema import DurationUs, Field


class OnFailure(StrEnum):
    """What happens to a row whose call has failed."""

    FAIL = "fail"
    DEAD_LETTER = "dead-letter"
    NULL = "null"


class ResultOrder(StrEnum):
    """In which order rows leave: those of one key as they came, or each when its answer has come."""

    INPUT = "input"
    ANY = "any"


class Retries(Message, tag="Retries"):
    """A call that has failed is made again up to ``most`` times. ``on`` lists errors by class; empty: all of them."""

    most: Annotated[int, Field("most", "how often a call is made again", minimum=1, maximum=limits.RETRIES_MAX)]
    wait_us: Annotated[DurationUs, Field("wait", "the time before the first repetition")] = 100_000
    factor: Annotated[
        int, Field("factor", "by which the wait grows with each repetition", minimum=1, maximum=limits.RETRIES_MAX)
    ] = 2
    on: Annotated[
        tuple[Reference, ...],
        Field("errors", "classes of errors after which a call is made again, as module:class; all when left out"),
    ] = ()


class Cache(Message, tag="Cache"):
    """Answers are remembered by what was asked, in each task: those used last, for a time."""

    rows: Annotated[int, Field("rows", "how many answers are kept", minimum=1, maximum=limits.CACHE_ROWS_MAX)]
    ttl_us: Annotated[DurationUs | None, Field("ttl", "for how long; for ever when left out", minimum="1ms")] = None
