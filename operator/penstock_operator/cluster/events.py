"""Posts events: a repeated event counts up, and none is lost while the API server is silent.

A decision produces an event only once. An event that cannot be posted is therefore kept here until
it can. It is lost only with this process, or when too many wait.
"""

import hashlib
from collections import deque
from dataclasses import dataclass, field

from penstock.kubernetes.answers import ApiError
from penstock_operator.api import kinds
from penstock_operator.api.plain import Object, stamp, text_at, whole_at
from penstock_operator.cluster.client import Client

COMPONENT = "penstock-operator"
EVENT_CHARS_MAX = 1000
LEFT_MAX = 512  # of all jobs; the oldest are dropped first
COUNT_TRIES = 5  # others may count the same event up at the same time
REFUSED_FOR_GOOD = (403, 404)  # a missing right, or a namespace that is being deleted


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """One event about the object that ``about`` refers to; ``at_s`` is when it happened."""

    about: Object
    reason: str
    message: str
    warning: bool
    at_s: float

    @property
    def place(self) -> tuple[str, str]:
        """Return namespace and name of its Event: they are the same for a repeated event."""
        uid, text = text_at(self.about, "uid"), self.message[:EVENT_CHARS_MAX]
        mark = hashlib.sha256(f"{uid}{self.reason}{text}".encode()).hexdigest()[:16]
        return text_at(self.about, "namespace"), f"{text_at(self.about, 'name')}.{mark}"


@dataclass(slots=True)
class Events:
    """Posts events. ``left`` are those that could not be posted yet, the oldest first."""

    client: Client
    left: deque[PendingEvent] = field(default_factory=lambda: deque(maxlen=LEFT_MAX))

    async def tell(self, news: PendingEvent) -> None:
        """Post an event after those that are left. If it cannot be posted now it is kept."""
        self.left.append(news)
        await self.send()

    async def send(self) -> None:
        """Post what is left, until the server does not answer. Raises ApiError for a bad event."""
        while self.left:
            news = self.left.popleft()
            try:
                await self._post(news)
            except ApiError as error:
                if error.transient:
                    self.left.appendleft(news)
                    return
                if error.code not in REFUSED_FOR_GOOD:
                    raise

    async def _post(self, news: PendingEvent) -> None:
        try:
            await self.client.create(_manifest(news))
        except ApiError as error:
            if not error.conflict:
                raise
            await self._count(news)

    async def _count(self, news: PendingEvent) -> None:
        for _ in range(COUNT_TRIES):
            found = await self.client.get(kinds.EVENT, *news.place)
            if found is None:
                await self.client.create(_manifest(news))  # the Event has expired
                return
            version = text_at(found, "metadata", "resourceVersion")
            change: Object = {
                "metadata": {"resourceVersion": version},
                "count": max(1, whole_at(found, "count")) + 1,
                "lastTimestamp": max(stamp(news.at_s), text_at(found, "lastTimestamp")),
            }
            try:
                await self.client.merge(kinds.EVENT, news.place, change)
            except ApiError as error:
                if not error.conflict:
                    raise
            else:
                return
        raise ApiError(409, "Conflict", f"Event {news.place[1]}: others count it, too")


def _manifest(news: PendingEvent) -> Object:
    namespace, name = news.place
    now = stamp(news.at_s)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": news.about,
        "reason": news.reason,
        "message": news.message[:EVENT_CHARS_MAX],
        "type": "Warning" if news.warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
