"""Events: the same one again counts up; none is lost while the API server is silent for a while.

An event is told once, when a decision is made; so one that could not be posted is kept here until
it is. It is lost only with this process, or when too many wait.
"""

import hashlib
from collections import deque
from dataclasses import dataclass, field

from penstock_operator.api import kinds
from penstock_operator.api.plain import Object, text_at, whole_at
from penstock_operator.api.times import stamp
from penstock_operator.cluster.client import ApiError, Client

COMPONENT = "penstock-operator"
EVENT_CHARS_MAX = 1000
LEFT_MAX = 512  # of all jobs; the oldest go first
COUNT_TRIES = 5  # against others that count the same event up
REFUSED_FOR_GOOD = (403, 404)  # no right to, or a namespace that ends


@dataclass(frozen=True, slots=True)
class News:
    """One event about the object that ``about`` refers to; ``at_s`` is when it was told."""

    about: Object
    reason: str
    message: str
    warning: bool
    at_s: float

    @property
    def place(self) -> tuple[str, str]:
        """Return namespace and name of its Event: the same for the same news."""
        uid, text = text_at(self.about, "uid"), self.message[:EVENT_CHARS_MAX]
        mark = hashlib.sha256(f"{uid}{self.reason}{text}".encode()).hexdigest()[:16]
        return text_at(self.about, "namespace"), f"{text_at(self.about, 'name')}.{mark}"


@dataclass(slots=True)
class Events:
    """``left`` could not be posted yet, oldest first."""

    client: Client
    left: deque[News] = field(default_factory=lambda: deque(maxlen=LEFT_MAX))

    async def tell(self, news: News) -> None:
        """Post it, after what is left. One that cannot be posted now is kept, and is no failure."""
        self.left.append(news)
        await self.send()

    async def send(self) -> None:
        """Post what is left; ends at the first silence. Raises ApiError for what is malformed."""
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

    async def _post(self, news: News) -> None:
        try:
            await self.client.create(_manifest(news))
        except ApiError as error:
            if not error.conflict:
                raise
            await self._count(news)

    async def _count(self, news: News) -> None:
        for _ in range(COUNT_TRIES):
            found = await self.client.get(kinds.EVENT, *news.place)
            if found is None:
                await self.client.create(_manifest(news))  # it has expired meanwhile
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


def _manifest(news: News) -> Object:
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
