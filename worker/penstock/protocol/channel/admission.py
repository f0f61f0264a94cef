"""Which streams a worker lets in: the decision on every handshake, pure.

    reset(a) ----> closed, attempt a ----open(...)----> open, attempt a ----extend(...)----+
       ^               hello of a: held                    hello of a: accepted, once   <--+
       +---------------- reset(a') , a' > a -------------------+

Lower attempts are refused for ever. Higher ones, and what this worker does not know *yet* in its
own attempt (a rescale reaches workers one after another), are held: no reply and so no credit,
until :meth:`Admission.open`, :meth:`Admission.extend` or a reset makes the answer known.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.contract.ids import Attempt, ChannelId, Incarnation, JobUid, Ordinal
from penstock.model.handshake import ChannelHello, Hello, LinkHello, Verdict
from penstock.model.wire import WIRE_VERSION


@dataclass(frozen=True, slots=True)
class AdmissionDecision:
    """The verdict on a hello; the reason is for people and says what to do."""

    verdict: Verdict
    reason: str = ""


_ACCEPTED = AdmissionDecision(Verdict.ACCEPTED)
_HELD = AdmissionDecision(Verdict.HELD)


class Admission:
    """The door of one worker. ``schemas`` are fingerprints of the channels that end here."""

    def __init__(self, job_uid: JobUid, ordinal: Ordinal) -> None:
        self._job_uid = job_uid
        self._ordinal = ordinal
        self._attempt = Attempt(0)
        self._open = False
        self._members: dict[Ordinal, Incarnation] = {}
        self._schemas: dict[ChannelId, bytes] = {}
        self._seen: set[ChannelId | Ordinal] = set()

    @property
    def attempt(self) -> Attempt:
        """The attempt this worker is in; lower ones are refused."""
        return self._attempt

    @property
    def is_open(self) -> bool:
        """True from :meth:`open` to the next reset."""
        return self._open

    def reset(self, attempt: Attempt) -> None:
        """Forget the attempt before; streams of ``attempt`` are held until :meth:`open`."""
        assert attempt >= self._attempt, f"attempt {attempt} after {self._attempt}"
        self._attempt = attempt
        self._open = False
        self._members = {}
        self._schemas = {}
        self._seen = set()

    def open(
        self, members: Mapping[Ordinal, Incarnation], schemas: Mapping[ChannelId, bytes]
    ) -> None:
        """Begin to let in the streams of the attempt that :meth:`reset` named."""
        assert not self._open, f"attempt {self._attempt} is open already"
        self._open = True
        self.extend(members, schemas)

    def extend(
        self, members: Mapping[Ordinal, Incarnation], schemas: Mapping[ChannelId, bytes]
    ) -> None:
        """Let in what a rescale adds, in the same attempt."""
        assert self._open, "only an open attempt can grow"
        self._members.update(members)
        self._schemas.update(schemas)

    def forget(self, members: Iterable[Ordinal], channels: Iterable[ChannelId]) -> None:
        """Forget what a rescale has ended: it may come again, anew, after :meth:`extend`."""
        for member in members:
            self._members.pop(member, None)
            self._seen.discard(member)
        for channel in channels:
            self._schemas.pop(channel, None)
            self._seen.discard(channel)

    def admit(self, hello: Hello) -> AdmissionDecision:
        """Decide on a handshake; an accepted one has used up its channel for this attempt."""
        refusal = self._refusal(hello)
        if refusal is not None:
            return AdmissionDecision(Verdict.REFUSED, refusal)
        if hello.attempt > self._attempt:
            return _HELD
        if not self._open or self._members.get(hello.sender) != hello.incarnation:
            return _HELD  # a worker that left may be back in another life before we hear of it
        return self._admit_known(hello)

    def _refusal(self, hello: Hello) -> str | None:
        """Say what is wrong whatever this worker may learn later, or None."""
        if hello.wire_version != WIRE_VERSION:
            return f"wire version {hello.wire_version} is not {WIRE_VERSION}"
        if hello.job_uid != self._job_uid:
            # The uid is not told: whoever asks has to know it.
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
                return AdmissionDecision(Verdict.REFUSED, _other_schema(hello))
        if key in self._seen:
            return AdmissionDecision(Verdict.REFUSED, self._repeated(hello))
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
