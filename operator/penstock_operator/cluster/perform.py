"""Performs a decision: one call after another, the first failure ends it. No write is retried here.

What was left out is decided again from what is there then. Whoever asked hears which write was
refused, so that the status can say it.

Events are the exception, because a decision produces an event only once. An event that cannot be
posted is therefore kept here until it can (:class:`Events`). It is lost only with this process, or
when too many wait. A repeated event counts up.
"""

import hashlib
from collections import deque
from dataclasses import dataclass, field

from penstock.contract import pod
from penstock.contract.streamjob_status import carried_status
from penstock.contract.streamsnapshot import snapshot_status_plain
from penstock.kubernetes.answers import ApiError
from penstock_operator.api import kinds, names, views
from penstock_operator.api.kinds import STREAM_JOB, STREAM_SNAPSHOT, kinds_named
from penstock_operator.api.names import job_of
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import Object, object_at, stamp, text_at, texts_at, whole_at
from penstock_operator.cluster import trust
from penstock_operator.cluster.client import Client
from penstock_operator.cluster.store import ForeignObjects, JobKey, Store, is_foreign
from penstock_operator.reconcile import actions as act
from penstock_operator.reconcile.accept import owner_of
from penstock_operator.reconcile.snapshots import imported_paths, is_used
from penstock_operator.resources import coordination
from penstock_operator.resources.target import Owner

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
            await self.client.create(_event_manifest(news))
        except ApiError as error:
            if not error.conflict:
                raise
            await self._count(news)

    async def _count(self, news: PendingEvent) -> None:
        for _ in range(COUNT_TRIES):
            found = await self.client.get(kinds.EVENT, *news.place)
            if found is None:
                await self.client.create(_event_manifest(news))  # the Event has expired
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


class RefusedError(ApiError):
    """The API server did not take ``what``, an object of the job."""

    def __init__(self, what: str, error: ApiError) -> None:
        """Keep the answer, and what it was about."""
        super().__init__(error.code, error.reason, error.message, error.retry_after_s)
        self.what = what


@dataclass(frozen=True, slots=True)
class ActionRunner:
    """Puts what writes return into the store, so that the next look is not older."""

    client: Client
    store: Store
    foreign: ForeignObjects
    events: Events

    async def perform(self, seen: Observed, decided: act.Decision) -> list[str]:
        """Do all of it; returns the actions that have changed something.

        Raises RefusedError at the first refusal or silence, else ApiError.
        """
        if decided.status_first:
            await self.tell(seen, decided)
            return await self.do(seen, decided)
        done = await self.do(seen, decided)
        await self.tell(seen, decided)
        return done

    async def do(self, seen: Observed, decided: act.Decision) -> list[str]:
        """Do the actions alone. Raises RefusedError at the first refusal or silence.

        A conflict is none: it is an ApiError, and says that another look is due.
        """
        done: list[str] = []
        for action in decided.actions:
            try:
                changed = await self._do(seen, action)
            except ApiError as error:
                if error.conflict:
                    raise
                raise RefusedError(_what(action), error) from error
            done += [type(action).__name__] if changed else []
        return done

    async def tell(self, seen: Observed, decided: act.Decision) -> None:
        """Write the status and post the events, without an action. Raises ApiError."""
        await self._status(seen, decided)
        await self.events.send()
        for event in decided.events:
            await self.events.tell(
                PendingEvent(_about(seen, event), event.reason, event.message, event.warning, seen.now)
            )

    async def _status(self, seen: Observed, decided: act.Decision) -> None:
        job = self.store.job(JobKey(seen.job.namespace, seen.job.name))
        if decided.status is None or job is None or seen.job.uid != text_at(job, "metadata", "uid"):
            return
        metadata: Object = {
            "name": seen.job.name,
            "namespace": seen.job.namespace,
            "uid": seen.job.uid,
            "resourceVersion": seen.job.version,
        }
        status = carried_status(object_at(job, "status"), decided.status)
        body: Object = {**job, "metadata": metadata, "status": status}
        self._keep(STREAM_JOB, await self.client.replace_status(STREAM_JOB, body))

    async def _do(self, seen: Observed, action: act.Action) -> bool:
        """Perform one action. False when it changed nothing."""
        owner = owner_of(seen.job)
        match action:
            case act.Apply(manifest, _, version, uid) if uid:
                before = self.store.version_at(manifest)
                made = await self.client.apply(manifest, uid=uid, version=version)
                self._keep_as(manifest, made)
                return before != text_at(made, "metadata", "resourceVersion")
            case act.Apply(manifest) | act.Create(manifest):
                await self._create(seen, manifest)
            case act.Scale():
                await self._scale(seen, action)
            case act.WriteDesired(value, fence, latest_uid, version):
                manifest = coordination.desired(owner, value, fence, latest_uid)
                if version:
                    self._keep_as(manifest, await self.client.replace(manifest, version))
                else:
                    await self._create(seen, manifest)
            case act.Archive():
                await self._archive(seen, action)
            case act.Delete("StreamSnapshot", name) if await self._is_needed(seen, name):
                return False
            case act.Delete():
                return await self._delete(seen, action)
            case act.WriteAuthority() | act.WriteCertificates():
                await self._trust(seen, action)
            case act.SetFinalizer():
                await self._finalizer(seen, action)
            case act.WriteSnapshotStatus():
                return await self._snapshot(seen, action)
        return True

    async def _delete(self, seen: Observed, action: act.Delete) -> bool:
        """Delete an object. False when it was gone: a watch may miss a deletion, and the store would keep it."""
        place, found = (seen.job.namespace, action.name), kinds_named(action.kind)
        there = [await self.client.delete(kind, place, action.uid, now=action.now) for kind in found]
        if not any(there):
            metadata: Object = {"namespace": seen.job.namespace, "name": action.name, "uid": action.uid}
            self.store.remove({"kind": action.kind, "metadata": metadata})
        return any(there)

    async def _is_needed(self, seen: Observed, name: str) -> bool:
        """Read live whether somebody needs the files of a snapshot, before they are removed."""
        view = next(s for s in seen.snapshots if s.name == name)
        jobs = await self.client.list_some(STREAM_JOB, seen.job.namespace)
        there = await self.client.list_some(STREAM_SNAPSHOT, seen.job.namespace)
        return is_used(view, views.restores_of(jobs) | imported_paths(map(views.snapshot_view, there)))

    async def _trust(self, seen: Observed, action: act.WriteAuthority | act.WriteCertificates) -> None:
        """Write one Secret. Both are read first: the observation has only summaries of them.

        Raises ApiError 409 when the Secret has changed since, or either of the two is foreign.
        """
        space, owner = seen.job.namespace, owner_of(seen.job)
        mounted = await self.client.get(kinds.SECRET, space, action.secret)
        beside = names.authority_name(action.secret)
        authority = await self.client.get(kinds.SECRET, space, beside)
        old = authority if isinstance(action, act.WriteAuthority) else mounted
        foreign = any(s is not None and job_of(s) != owner.uid for s in (mounted, authority))
        if foreign or trust.version_of(old) != action.version:
            raise ApiError(409, "Conflict", f"Secret {action.secret} or {beside} has changed")
        manifest = _made(owner, action, (authority, mounted), seen.now)
        if old is None:
            await self.client.create(manifest)
        else:
            await self.client.replace(manifest, action.version)

    async def _create(self, seen: Observed, manifest: Object) -> None:
        """Create an object, unless this job has created it already."""
        later = names.ANNOTATION_APPLIED in object_at(manifest, "metadata", "annotations")
        create = self.client.apply_new if later else self.client.create
        try:
            self._keep_as(manifest, await create(manifest))
        except ApiError as error:
            if not error.conflict or not await self._is_ours(seen, manifest):
                raise

    async def _is_ours(self, seen: Observed, manifest: Object) -> bool:
        """Read the object whose name is taken, and remember it if it is foreign."""
        kind = kinds.kind_of(text_at(manifest, "apiVersion"), text_at(manifest, "kind"))
        name = text_at(manifest, "metadata", "name")
        found = await self.client.get(kind, seen.job.namespace, name)
        if found is None:
            return False  # it is gone by now
        if kind is kinds.SECRET:
            found.pop("data", None)
        plain: Object = {**found, "apiVersion": kind.api_version, "kind": kind.kind}
        wanted = texts_at(manifest, "metadata", "labels").get(pod.LABEL_JOB_UID)
        if job_of(plain) in {seen.job.uid, wanted}:
            return True
        if is_foreign(plain, seen.job.uid):  # the watch reports any other
            self.foreign.add(JobKey(seen.job.namespace, seen.job.name), plain)
        return False

    async def _scale(self, seen: Observed, action: act.Scale) -> None:
        change: Object = {
            "metadata": {
                "resourceVersion": action.version,
                "annotations": {names.ANNOTATION_FENCE: str(action.fence)},
            },
            "spec": {"replicas": action.replicas},
        }
        place = (seen.job.namespace, pod.workers_name(seen.job.name))
        found = await self.client.merge(kinds.STATEFUL_SET, place, change)
        self._keep(kinds.STATEFUL_SET, found)

    async def _archive(self, seen: Observed, action: act.Archive) -> None:
        place = (seen.job.namespace, pod.latest_name(seen.job.name))
        found = await self.client.get(kinds.CONFIG_MAP, *place)
        if found is None or text_at(found, "metadata", "uid") != action.uid:
            return
        await self._create(seen, coordination.archive(owner_of(seen.job), found, action.job_uid))
        await self.client.delete(kinds.CONFIG_MAP, place, action.uid, version=action.version)

    async def _finalizer(self, seen: Observed, action: act.SetFinalizer) -> None:
        kind, name, held = STREAM_JOB, seen.job.name, seen.job.finalizers
        if action.snapshot:
            view = next(s for s in seen.snapshots if s.name == action.snapshot)
            kind, name, held = STREAM_SNAPSHOT, view.name, view.finalizers
        wanted = [f for f in held if f != names.FINALIZER]
        if action.present:
            wanted.append(names.FINALIZER)
        metadata: Object = {"finalizers": list(wanted)}
        if action.version:
            metadata["resourceVersion"] = action.version
        place = (seen.job.namespace, name)
        try:
            self._keep(kind, await self.client.merge(kind, place, {"metadata": metadata}))
        except ApiError as error:
            if error.code != 404:
                raise

    async def _snapshot(self, seen: Observed, action: act.WriteSnapshotStatus) -> bool:
        """Write a status. False when it is as it was: the snapshot is gone, or its definition lacks the fields."""
        place = (seen.job.namespace, action.name)
        change: Object = {
            "metadata": {"resourceVersion": action.version},
            "status": dict(snapshot_status_plain(action.status)),
        }
        try:
            found = await self.client.merge(STREAM_SNAPSHOT, place, change, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        self._keep(STREAM_SNAPSHOT, found)
        return text_at(found, "metadata", "resourceVersion") != action.version

    def _keep(self, kind: kinds.Kind, found: Object) -> None:
        self.store.keep({**found, "apiVersion": kind.api_version, "kind": kind.kind})

    def _keep_as(self, manifest: Object, found: Object) -> None:
        if text_at(manifest, "kind") != "Secret":
            kind = kinds.kind_of(text_at(manifest, "apiVersion"), text_at(manifest, "kind"))
            self._keep(kind, {**found, "metadata": object_at(found, "metadata")})


def _what(action: act.Action) -> str:
    """Name the object of an action, for messages."""
    match action:
        case act.Apply(manifest) | act.Create(manifest):
            return f"{text_at(manifest, 'kind')} {text_at(manifest, 'metadata', 'name')}"
        case act.Delete(kind, name):
            return f"the deletion of {kind} {name}"
        case act.Scale(replicas):
            return f"the scale of the StatefulSet to {replicas}"
        case act.WriteSnapshotStatus(name):
            return f"the status of StreamSnapshot {name}"
        case act.SetFinalizer(_, name):
            return f"the finalizer of StreamSnapshot {name}" if name else "the job's finalizer"
        case act.WriteDesired():
            return "the ConfigMap -desired"
        case act.Archive():
            return "the archive of an earlier job's -latest"
        case act.WriteAuthority(secret):
            return f"the Secret {names.authority_name(secret)}"
        case act.WriteCertificates(secret):
            return f"the Secret {secret}"


def _made(
    owner: Owner,
    action: act.WriteAuthority | act.WriteCertificates,
    secrets: tuple[Object | None, Object | None],
    now: float,
) -> Object:
    """Build a Secret. Raises ApiError 409 when what it is made from is gone by now."""
    above, mounted = (trust.files_of(secret) for secret in secrets)
    try:
        if isinstance(action, act.WriteAuthority):
            return trust.authority_secret(owner, action, above, mounted, now)
        return trust.certificates_secret(owner, action, above, mounted, now)
    except LookupError as error:
        text = f"Secrets of {action.secret} have changed: no {error}"
        raise ApiError(409, "Conflict", text) from error


def _about(seen: Observed, event: act.Event) -> Object:
    """Return the reference to the object of an event."""
    kind, name, uid = STREAM_JOB, seen.job.name, seen.job.uid
    if event.snapshot:
        kind, name = STREAM_SNAPSHOT, event.snapshot
        uid = next((s.uid for s in seen.snapshots if s.name == name), "")
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": name,
        "namespace": seen.job.namespace,
        "uid": uid,
    }


def _event_manifest(news: PendingEvent) -> Object:
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
