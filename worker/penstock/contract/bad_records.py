"""What a source does with a record or line that does not decode."""

from enum import StrEnum
from typing import Annotated

from penstock.contract.schema import Field


class OnBadRecord(StrEnum):
    """What happens when a record or line does not decode."""

    FAIL = "fail"
    DEAD_LETTER = "dead-letter"


OnBadLine = Annotated[
    OnBadRecord,
    Field(
        "onError",
        "what happens when a line does not decode: the job fails (also when this is left out), or the line goes to the"
        " output dead-letter as it came, with its file and its number",
    ),
]
