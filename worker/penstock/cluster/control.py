"""The methods of keepers and of the supervisor, as one table each.

keeper      deliver     a report to its leader, a command to its member
supervisor  announce    which lives are up on a worker
            status, rescale, ask, end     what the command line asks for
"""

from penstock.cluster.rpc import Method, Nothing
from penstock.contract.codec import Message
from penstock.contract.control_messages import Envelope
from penstock.contract.status import JobStatus, RequestAnswer, WorkerReport


class Rescale(Message, tag="Rescale"):
    """Ask for another number of workers."""

    workers: int


class Ask(Message, tag="Ask"):
    """A request of ``Desired``: ``checkpoint``, ``savepoint`` (its name) or ``stop``."""

    kind: str
    argument: str | None = None


class AnswerOf(Message, tag="AnswerOf"):
    """What became of the request of this id."""

    id: str


class End(Message, tag="End"):
    """End all processes now, without a last checkpoint."""


DELIVER = Method("deliver", Envelope, Nothing)
ANNOUNCE = Method("announce", WorkerReport, Nothing)
STATUS = Method("status", Nothing, JobStatus)
RESCALE = Method("rescale", Rescale, RequestAnswer)
ASK = Method("ask", Ask, RequestAnswer)
ANSWER = Method("answer", AnswerOf, RequestAnswer)
END = Method("end", End, Nothing)
