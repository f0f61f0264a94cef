"""Which streams a worker admits: a pure decision on every handshake.

::

    CLOSED ──> OPEN, CLOSED
    OPEN   ──> CLOSED

A reset names the attempt and closes. :meth:`Admission.open` then lets the streams of that attempt
in, each channel once. :meth:`Admission.extend` adds the channels that a rescale brings.

Streams of lower attempts are refused for ever. Three kinds of streams are held, without a reply and
so without credit: streams of a higher attempt, all streams while the phase is CLOSED, and streams
of channels that this worker does not know *yet* (a rescale reaches workers one after another). A
held stream is decided on again at the next reset, :meth:`Admission.open` or
:meth:`Admission.extend`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.contract.ids import Attempt, ChannelId, Incarnation, JobUid, Ordinal
from penstock.model.wire import WIRE_VERSION, AdmissionVerdict, ChannelHello, Hello, LinkHello
from penstock.protocol.core_context import checked


@dataclass(frozen=True, slots=True)
class AdmissionDecision:
    """The verdict on a hello. The reason is for people and says what to do."""

    verdict: AdmissionVerdict
    reason: str = ""


_ACCEPTED = AdmissionDecision(AdmissionVerdict.ACCEPTED)
_HELD = AdmissionDecision(AdmissionVerdict.HELD)


class AdmissionPhase(Enum):
    """Whether the streams of the attempt are let in."""

    CLOSED = 0
    OPEN = 1


TRANSITIONS: dict[AdmissionPhase, tuple[AdmissionPhase, ...]] = {
    AdmissionPhase.CLOSED: (AdmissionPhase.OPEN, AdmissionPhase.CLOSED),
    AdmissionPhase.OPEN: (AdmissionPhase.CLOSED,),  # a reset
}


class Admission:
    """The admission of one worker. ``schemas``: fingerprints of the channels that end here."""

    def __init__(self, job_uid: JobUid, ordinal: Ordinal) -> None:
        self._job_uid = job_uid
        self._ordinal = ordinal
        self._attempt = Attempt(0)
        self._phase = AdmissionPhase.CLOSED
        self._members: dict[Ordinal, Incarnation] = {}
        self._schemas: dict[ChannelId, bytes] = {}
        self._seen: set[ChannelId | Ordinal] = set()

    @property
    def attempt(self) -> Attempt:
        """The attempt of this worker. Streams of lower attempts are refused."""
        return self._attempt

    @property
    def is_open(self) -> bool:
        """True from :meth:`open` to the next reset."""
        return self._phase is AdmissionPhase.OPEN

    def reset(self, attempt: Attempt) -> None:
        """Forget the attempt before. Streams of ``attempt`` are held until :meth:`open`."""
        assert attempt >= self._attempt, f"attempt {attempt} after {self._attempt}"
        self._attempt = attempt
        self._enter(AdmissionPhase.CLOSED)
        self._members = {}
        self._schemas = {}
        self._seen = set()

    def open(self, members: Mapping[Ordinal, Incarnation], schemas: Mapping[ChannelId, bytes]) -> None:
        """Admit the streams of the attempt that :meth:`reset` named."""
        self._enter(AdmissionPhase.OPEN)
        self.extend(members, schemas)

    def extend(self, members: Mapping[Ordinal, Incarnation], schemas: Mapping[ChannelId, bytes]) -> None:
        """Admit the streams that a rescale adds to the attempt."""
        assert self.is_open, "only an open attempt can grow"
        self._members.update(members)
        self._schemas.update(schemas)

    def _enter(self, phase: AdmissionPhase) -> None:
        self._phase = checked(TRANSITIONS, self._phase, phase)

    def forget(self, members: Iterable[Ordinal], channels: Iterable[ChannelId]) -> None:
        """Forget streams that a rescale has ended. They may come again after :meth:`extend`."""
        for member in members:
            self._members.pop(member, None)
            self._seen.discard(member)
        for channel in channels:
            self._schemas.pop(channel, None)
            self._seen.discard(channel)

    def admit(self, hello: Hello) -> AdmissionDecision:
        """Decide on a handshake. A channel is accepted only once in an attempt."""
        refusal = self._refusal(hello)
        if refusal is not None:
            return AdmissionDecision(AdmissionVerdict.REFUSED, refusal)
        if hello.attempt > self._attempt:
            return _HELD
        if not self.is_open or self._members.get(hello.sender) != hello.incarnation:
            return _HELD  # a worker may come back as another incarnation before this one knows it
        return self._admit_known(hello)

    def _refusal(self, hello: Hello) -> str | None:
        """Return what is wrong, whatever this worker may learn later, or None."""
        if hello.wire_version != WIRE_VERSION:
            return f"wire version {hello.wire_version} is not {WIRE_VERSION}"
        if hello.job_uid != self._job_uid:
            # The text does not name this worker's uid: a sender has to know it.
            return f"this worker runs another job than {hello.job_uid}"
        if hello.receiver != self._ordinal:
            return f"this is worker {self._ordinal}, not {hello.receiver}"
        if hello.attempt < self._attempt:
            return f"attempt {hello.attempt} is over: this worker is in attempt {self._attempt}"
        return None

    def _admit_known(self, hello: Hello) -> AdmissionDecision:
        key = hello.sender if isinstance(hello, LinkHello) else hello.channel
        if isinstance(hello, ChannelHello):
            if hello.channel not in self._schemas:
                return _HELD
            if self._schemas[hello.channel] != hello.schema:
                return AdmissionDecision(AdmissionVerdict.REFUSED, _other_schema(hello))
        if key in self._seen:
            return AdmissionDecision(AdmissionVerdict.REFUSED, self._repeated(hello))
        self._seen.add(key)
        return _ACCEPTED

    def _repeated(self, hello: Hello) -> str:
        what = f"channel {hello.channel}" if isinstance(hello, ChannelHello) else "the link"
        return (
            f"{what} had its stream in attempt {self._attempt}: a broken stream is never "
            "redialled, the job rolls back instead"
        )


def _other_schema(hello: ChannelHello) -> str:
    return (
        f"channel {hello.channel}: the sender's schema ({hello.schema.hex()[:12]}) is not the "
        "receiver's: all workers must run the same job"
    )
