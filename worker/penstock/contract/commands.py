"""What a leader tells a member, and the member its engine; see :mod:`control`."""

from penstock.contract.codec import Message
from penstock.contract.ids import Attempt, Epoch, Incarnation, StageIndex, Version
from penstock.contract.latest import Leader, Member
from penstock.contract.manifest import BlobRef, SinkHandle, SplitState
from penstock.contract.plan import Assignment


class StageSplits(Message, tag="StageSplits"):
    """The splits of one source stage, in the order in which they are dealt out."""

    stage: StageIndex
    splits: tuple[SplitState, ...]


class Announce(Message, tag="Announce"):
    """A new term begins: confirm ``epoch`` (publish, go forward), abort only newer ones.

    The engine drops what is in flight above ``epoch`` under lower terms, as after ``Abort``.
    """

    leader: Leader
    attempt: Attempt
    epoch: Epoch
    version: Version
    published_through: Epoch


class Enumerate(Message, tag="Enumerate"):
    """List the splits of the sources that no checkpoint knows, named by their stages.

    Asked of one member before an attempt: the very first one, or one of a job that has changed.
    """

    attempt: Attempt
    stages: tuple[StageIndex, ...]


class Reset(Message, tag="Reset"):
    """Go back to ``epoch`` (0: to nothing): discard all newer state, build tasks, say ready.

    ``root`` names the checkpoint to load; its table may be of another version than
    ``assignment``, and every task takes what its share of ``assignment`` needs. ``splits`` are the
    first states of sources that it does not know. A Reset to the attempt already taken is ignored.
    """

    attempt: Attempt
    epoch: Epoch
    root: BlobRef | None
    assignment: Assignment
    members: tuple[Member, ...]
    splits: tuple["StageSplits", ...] = ()


class Publish(Message, tag="Publish"):
    """Publish these handles of a committed epoch; done ones are no error."""

    attempt: Attempt
    epoch: Epoch
    handles: tuple[SinkHandle, ...]


class Start(Message, tag="Start"):
    """All are READY and the old output is visible: sources seek, streams open."""

    attempt: Attempt


class Inject(Message, tag="Inject"):
    """Put the barrier of ``epoch`` into the sources; ``kind`` as in ``BarrierKind``."""

    attempt: Attempt
    epoch: Epoch
    version: Version
    kind: int
    committed: Epoch


class Hurry(Message, tag="Hurry"):
    """Somebody waits for ``epoch``: write its state without a rest. Lost, it costs only time."""

    attempt: Attempt
    epoch: Epoch


class Commit(Message, tag="Commit"):
    """``epoch`` is committed: sinks publish it; a rescale goes forward to ``version``."""

    attempt: Attempt
    epoch: Epoch
    version: Version


class Abort(Message, tag="Abort"):
    """``epoch`` will never be committed under this term: carry its handles, forget its barrier.

    Only barriers of this term and number are meant: the number may recur under a higher term.
    """

    attempt: Attempt
    epoch: Epoch


class Prepare(Message, tag="Prepare"):
    """Rescale, step 1: the proposed table; joiners build tasks, gainers pre-load from ``root``.

    ``members`` are those of both tables. A joiner takes ``attempt``; when its tasks wait for
    input it reports ready and running as well as prepared. ``splits`` as in :class:`Reset`.
    """

    attempt: Attempt
    assignment: Assignment
    members: tuple[Member, ...]
    epoch: Epoch
    root: BlobRef | None
    splits: tuple["StageSplits", ...] = ()


class CancelRescale(Message, tag="CancelRescale"):
    """``version`` is off: release what is held to the old owners, and report prepared 0."""

    attempt: Attempt
    version: Version


class Adopt(Message, tag="Adopt"):
    """Rescale, step 4: ``version`` is committed with ``epoch``: load the last delta and resume.

    It confirms ``epoch`` as :class:`Commit` does. Leaving tasks report resumed at once.
    """

    attempt: Attempt
    version: Version
    epoch: Epoch
    root: BlobRef


class Settled(Message, tag="Settled"):
    """All have resumed under ``version``: leaving tasks may end their streams."""

    attempt: Attempt
    version: Version


class EndStreams(Message, tag="EndStreams"):
    """The final epoch is published: sources send end of stream."""

    attempt: Attempt


class Shutdown(Message, tag="Shutdown"):
    """End this one engine: the job is closed, or it is no member (any more). Not its successor."""

    incarnation: Incarnation
    reason: str


Command = (
    Announce
    | Enumerate
    | Reset
    | Publish
    | Start
    | Inject
    | Hurry
    | Commit
    | Abort
    | Prepare
    | CancelRescale
    | Adopt
    | Settled
    | EndStreams
    | Shutdown
)
