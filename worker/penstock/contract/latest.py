"""``-latest``, the one object that is the truth, and ``-desired``, which holds what is wanted.

``Latest`` changes only by compare-and-swap. Each swap writes a fresh ``swap_id``. By it a leader
can tell its own swap, whose reply was lost, from another leader's. All else is a view of it.
"""

import json
from collections.abc import Iterable
from enum import StrEnum

from penstock.base.errors import PeerError, StateError
from penstock.base.limits import LATEST_BYTES_MAX
from penstock.base.values import replace
from penstock.contract.balance import Balance
from penstock.contract.codec import ABSENT, Absent, Message, TolerantMessage, decode, encode, parsed
from penstock.contract.ids import (
    Attempt,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    SwapId,
    Term,
    Version,
)
from penstock.contract.manifest import BlobRef
from penstock.contract.schemes import Choices, RefusedScheme

CLIPPED = " [...]"
# Raised whenever an older version could misread a record. 1 had no field for it.
LATEST_FORMAT = 2
# Raised whenever an older version must not go by a record. 1 is not written: see `encode_desired`.
DESIRED_FORMAT = 1
OVERRIDES = "instead-"  # begins the nonce of a restore in the place of the file's
ANY_STATE = "*"  # no step has such a name
ANY_SINK = "*"


class Unpublished(StrEnum):
    """What a restore does about committed output of a sink that is not visible.

    - ``FAIL``: it is published, and the job fails where that cannot be done exactly once.
    - ``PUBLISH``: it is published even where the target's marker was lost. Rows may be there twice.
    - ``SKIP``: it is published without the rows that the target refuses.
    - ``DROP``: it is given up, and nobody can publish it later.
    """

    FAIL = "Fail"
    PUBLISH = "Publish"
    SKIP = "Skip"
    DROP = "Drop"


class SinkRestore(Message, tag="SinkRestore"):
    """What happens with the unpublished output of a sink; :data:`ANY_SINK` means each one that is not named."""

    sink: str
    how: Unpublished


class OutputRestore(Message, tag="OutputRestore"):
    """What a restore does about the output of ``epoch``, and of no other, until that is visible or given up."""

    epoch: Epoch
    sinks: tuple[SinkRestore, ...]


class LostRows(Message, tag="LostRows"):
    """Committed rows of a sink that were given up: at most ``rows`` of its output of ``epoch`` are not visible."""

    sink: str
    epoch: Epoch
    rows: int


def how_of(sink: str, sinks: Iterable[SinkRestore]) -> Unpublished:
    """Return what happens with the unpublished output of a sink."""
    given = {each.sink: each.how for each in sinks}
    return given.get(sink, given.get(ANY_SINK, Unpublished.FAIL))


class Leader(Message, tag="Leader"):
    """The worker that the last swap of the term names; ``address`` is that of its keeper."""

    ordinal: Ordinal
    incarnation: Incarnation
    address: str


class Member(Message, tag="Member"):
    """One worker of an attempt: the incarnation of its engine, and the addresses of keeper and engine.

    ``pod`` is the uid of the pod that it runs in, empty on one machine.
    """

    ordinal: Ordinal
    incarnation: Incarnation
    keeper: str
    flight: str
    pod: str = ""


class Retained(Message, tag="Retained"):
    """A checkpoint whose files must stay. ``savepoint`` is the user's name for it."""

    epoch: Epoch
    root: BlobRef
    savepoint: str | None = None


class Lost(Message, tag="Lost"):
    """An incarnation that the leader has given up. Whoever restarts workers may end it.

    ``pod`` is the uid of the pod that it ran in. No other pod may be deleted because of it.
    """

    ordinal: Ordinal
    incarnation: Incarnation
    pod: str = ""


class Answer(Message, tag="Answer"):
    """The result of a request of ``Desired``: done, or refused or failed for a reason.

    ``epoch``: of the checkpoint or savepoint that was asked for.
    """

    request: str
    ok: bool
    text: str
    epoch: Epoch | Absent = ABSENT


class Death(Message, tag="Death"):
    """An engine's process that ended unasked, and the attempt that it ended.

    It is death ``number`` of its run, and number ``count`` within the window. The first line of
    ``reason`` says how it ended. The rows in flight and its last lines of output follow.
    """

    ordinal: Ordinal
    incarnation: Incarnation
    attempt: Attempt
    number: int
    count: int
    reason: str


class Deaths(Message, tag="Deaths"):
    """What the limit of restarts has counted; its rules are in ``protocol/restarts``.

    - ``count``: deaths within the last ``window_s`` of ``run``, ``total`` of all of it. One more
      than ``attempts`` within the window fails the job. ``newest``: some of them, oldest first.
    - ``judged``: the newest attempt whose end was looked at; ``unknown``: workers that were lost
      once within the window, nobody knows why.
    """

    run: str = ""
    count: int = 0
    attempts: int = 0
    window_s: float = 0.0
    total: int = 0
    judged: Attempt = Attempt(0)
    unknown: tuple[Ordinal, ...] = ()
    newest: tuple[Death, ...] = ()


class Latest(Message, tag="Latest"):
    """State of the job that outlives every worker; at most 64 KiB encoded, asserted.

    - ``swap_id``: fresh in every swap of a leader; nobody else ever writes it.
    - ``version``, ``workers``: the committed assignment; ``proposed``: the highest version ever
      put forward, so that two proposals never share a number.
    - ``settled``: the newest version that all members run under, with its rescale's output
      published. Workers may be removed when ``settled == version``, ``workers`` is what is
      wanted and the leader's ordinal is below it.
    - ``max_epoch``: the highest epoch ever committed (new ones exceed it, even after a restore of
      an older one); ``published_through``: the newest epoch whose output is known to be visible.
    - ``members``: the file with the members, the assignment and the first splits of ``attempt``.
    - ``finished``, ``stopped``, ``failure``: no engine runs under any of them; a new ``run`` of
      ``Desired`` clears the last two. ``stalled``: what the leader waits for, in words.
    - ``restored``: the nonce of the last restore; ``lost_output``: epochs whose unpublished
      output was dropped on request, ``lost_rows`` how much of which sink; ``replayed``: output
      may be repeated since a restore. ``unpublished``: what happens with output of ``epoch``.
    - ``deaths``: the count of the limit of restarts; a new leader goes on from it.
    - ``schemes``: those of the committed assignment; ``refused``: what of ``Desired.partition`` cannot be, and why.
    - ``balance``: what came of the last request to balance.
    - ``format``: that of the record as it was read, or is written; see :func:`decode_latest`.
    """

    job_uid: JobUid
    swap_id: SwapId
    term: Term = Term(0)
    leader: Leader | None = None
    attempt: Attempt = Attempt(0)
    version: Version = Version(0)
    proposed: Version = Version(0)
    settled: Version = Version(0)
    workers: int = 0
    epoch: Epoch = Epoch(0)
    max_epoch: Epoch = Epoch(0)
    root: BlobRef | None = None
    members: BlobRef | None = None
    retained: tuple[Retained, ...] = ()
    pinned: tuple[Retained, ...] = ()
    lost: tuple[Lost, ...] = ()
    published_through: Epoch = Epoch(0)
    finished: bool = False
    stopped: bool = False
    failure: str | None = None
    stalled: str | None = None
    rescale: str | None = None
    run: str = ""
    restored: str = ""
    replayed: bool = False
    lost_output: tuple[Epoch, ...] = ()
    answers: tuple[Answer, ...] = ()
    deaths: Deaths = Deaths()
    format: int = LATEST_FORMAT
    unpublished: OutputRestore | Absent = ABSENT
    lost_rows: tuple[LostRows, ...] | Absent = ABSENT
    schemes: Choices | Absent = ABSENT
    refused: tuple[RefusedScheme, ...] | Absent = ABSENT
    balance: Balance | Absent = ABSENT

    def closed(self) -> bool:
        """Return whether no engine may run: the job has finished, stopped or failed."""
        return self.finished or self.stopped or self.failure is not None

    def handling(self) -> tuple[SinkRestore, ...]:
        """Return what happens with the output of the committed epoch, by sink."""
        given = self.unpublished
        return () if given is ABSENT or given.epoch != self.epoch else given.sinks


def clip(text: str, bytes_max: int) -> str:
    """Shorten ``text`` so that its JSON form has at most ``bytes_max`` bytes, quotes aside."""
    if len(json.dumps(text)) - 2 <= bytes_max:
        return text
    kept: list[str] = []
    size = len(CLIPPED)
    for char in text:
        size += len(json.dumps(char)) - 2
        if size > bytes_max:
            break
        kept.append(char)
    return "".join(kept) + CLIPPED


def encode_latest(latest: Latest) -> bytes:
    """Return the stored form of ``latest``. Its parts bound its size, which is asserted."""
    data = encode(latest)
    assert len(data) <= LATEST_BYTES_MAX, f"-latest has {len(data)} bytes of {LATEST_BYTES_MAX}"
    return data


def decode_latest(data: bytes) -> Latest:
    """Read a record of this format or of an older one; what is written over it is of this one.

    Raises StateError for one of a newer version, which nobody may write over, and PeerError for
    what is no record.
    """
    try:
        latest = decode(Latest, data)
    except PeerError:
        found = _format_of(data)
        if found <= LATEST_FORMAT:
            raise
    else:
        found = latest.format
        if found <= LATEST_FORMAT:
            return replace(latest, format=LATEST_FORMAT)
    raise _newer("-latest", found, LATEST_FORMAT)


def _newer(name: str, found: int, known: int) -> StateError:
    return StateError(
        f"{name} has the format {found}, of a newer version; this one reads formats up to "
        f"{known}: run the version that wrote it, or a newer one. Nothing is written"
    )


def _format_of(data: bytes) -> int:
    """Return the format that an unreadable record names; 0 when it names none."""
    try:
        plain = parsed(data)
    except PeerError:
        return 0
    found = plain.get("format") if isinstance(plain, dict) else None
    return found if isinstance(found, int) else 0


class Request(TolerantMessage, tag="Request"):
    """A request of the user. It is fulfilled once per ``id``, however often it is read.

    ``kind`` is ``checkpoint``, ``savepoint`` (``argument``: its name) or ``stop`` (``argument``:
    the name of a savepoint to take first, or None). The answer is in ``Latest.answers``; whoever
    asked takes the request away once it is answered, and only then may its answer go.
    """

    id: str
    kind: str
    argument: str | None = None


class Restore(TolerantMessage, tag="Restore"):
    """What a job begins from, once per ``nonce``: a savepoint, some epoch, the newest, nothing.

    ``path`` is a savepoint's folder (its files are imported before the first commit), ``epoch`` a
    retained epoch of this job, ``empty`` no state at all: the sources begin anew. With none of
    them the newest committed one is meant, and only what is dropped matters. What is older than
    the newest committed one is refused unless ``allow_output_replay``.

    ``drop_state`` names steps whose stored state is given up; :data:`ANY_STATE` among them means
    all state that no step of the job takes.

    ``unpublished`` says by sink what happens with committed output that is not visible. The sinks
    that it does not name are given up with ``drop_unpublished``.
    """

    nonce: str
    path: str | None = None
    epoch: Epoch | None = None
    allow_output_replay: bool = False
    drop_unpublished: bool = False
    empty: bool = False
    drop_state: tuple[str, ...] = ()
    unpublished: tuple[SinkRestore, ...] = ()

    def handling(self) -> tuple[SinkRestore, ...]:
        """Return what happens with unpublished output, by sink; nothing for those that must publish."""
        others = (SinkRestore(ANY_SINK, Unpublished.DROP),) if self.drop_unpublished else ()
        return (*self.unpublished, *others)


def overriding(nonce: str, given: Restore | None) -> str:
    """Return the nonce of a restore that a command asks for in the place of the file's ``given``.

    When it is done the file's counts as done, too: the next run without an option goes on.
    """
    return nonce if given is None else f"{OVERRIDES}{nonce}/{given.nonce}"


def is_done(wanted: Restore, restored: str | None) -> bool:
    """Say whether a restore was done, or another one in its place; ``restored`` is the newest."""
    if restored is None or restored == wanted.nonce:
        return restored is not None
    overrides, _, nonce = restored.partition("/")
    return overrides.startswith(OVERRIDES) and nonce == wanted.nonce


class Desired(TolerantMessage, tag="Desired"):
    """What the operator (or, locally, the supervisor) wants; the leader answers in ``Latest``.

    - ``run`` names this run of the job: a new one clears ``stopped`` and ``failure`` of the last.
    - ``partition``: the schemes of steps that have several; of a step that is not named, the one that its job says.
    - ``rebalance``: the number of a request to balance. Another number is another request.
    - ``format``: that of the record as it is written; see :func:`decode_desired`.
    """

    workers: int
    requests: tuple[Request, ...] = ()
    restore: Restore | None = None
    run: str = ""
    format: int = DESIRED_FORMAT
    partition: Choices | Absent = ABSENT
    rebalance: int | Absent = ABSENT


def encode_desired(desired: Desired) -> bytes:
    """Return the stored form of ``desired``.

    The format 1 is left out: workers from before there was one refuse a field that they do not
    know, and would obey nothing until their image is a newer one.
    """
    plain = parsed(encode(desired))
    if desired.format == 1:
        del plain["format"]
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def decode_desired(data: bytes) -> Desired:
    """Read a record of this format or of an older one; what is written over it is of this one.

    A field that this version does not know is left aside: whoever added it and did not raise the
    format has said that this is right. Raises StateError for a newer format, which nobody may go
    by nor write over, and PeerError for what is no record.
    """
    found = _format_of(data)
    if found > DESIRED_FORMAT:
        raise _newer("-desired", found, DESIRED_FORMAT)
    return replace(decode(Desired, data), format=DESIRED_FORMAT)
