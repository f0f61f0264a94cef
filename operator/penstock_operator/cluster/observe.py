"""Reads the objects of one job: from the store, or live in the order that safe writes need."""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.settings import OperatorFlavour
from penstock.contract.streamjob_status import StreamJobStatus
from penstock.kubernetes.answers import ApiError
from penstock_operator.api import kinds, names, views
from penstock_operator.api.kinds import Kind
from penstock_operator.api.names import job_of
from penstock_operator.api.observed import JobView, Observed, Refusal
from penstock_operator.api.plain import Object, object_at, text_at, whole_at
from penstock_operator.api.views import Versions, trust_view
from penstock_operator.cluster.client import Client
from penstock_operator.cluster.store import ForeignObjects, JobKey, Place, Store, is_foreign
from penstock_operator.cluster.trust import summary_of
from penstock_operator.reconcile.certificates import trust_steps
from penstock_operator.reconcile.observation import ObservationContext, build_observation
from penstock_operator.reconcile.snapshots import may_exceed_retention, requested_snapshot_uids

NAMESPACE_ASKED_EVERY_S = 5.0
EVENTS_ASKED_EVERY_S = 4.0  # while pods are missing; it is shorter than decide.WATCHFUL_S
REFUSAL_CHARS_MAX = 1000
SNAPSHOTS = (kinds.STREAM_SNAPSHOT.kind,)


@dataclass(slots=True)
class Observer:
    """Reads the objects of jobs. It remembers facts that no watch reports.

    - ``clock`` is monotonic. ``wall`` gives seconds since 1970, as the times in objects are.
    - ``trust``: summaries of the job's Secrets, with the job's uid. Secrets are not watched.
    - ``troubles``: when the events of a StatefulSet without its pods were read, and the result.
    - ``refusals``: the writes that were refused at the last try.
    - ``versions``: the cache of views.
    - ``ending``: for each namespace, when it was read, and whether it was being deleted.
    - ``spark``: the kinds of SparkApplication that the server serves; ``handlers.spark_watches``
      keeps them current.
    """

    client: Client
    store: Store
    foreign: ForeignObjects
    clock: Callable[[], float]
    wall: Callable[[], float]
    trust: dict[JobKey, tuple[str, dict[str, Object]]] = field(default_factory=dict)
    troubles: dict[JobKey, tuple[float, str]] = field(default_factory=dict)
    refusals: dict[JobKey, Refusal] = field(default_factory=dict)
    versions: Versions = field(default_factory=Versions)
    spark: set[Kind] = field(default_factory=set)
    ending: dict[str, tuple[float, bool]] = field(default_factory=dict)

    async def look(self, key: JobKey, *, refresh: bool) -> Observed | None:
        """Observe a job from the store; None when there is no such StreamJob."""
        job = self.store.job(key)
        if job is None:
            self.foreign.forget(key)
            return None
        for plain in self.foreign.due(key):
            await self._look_again(key, plain)
        objects = self._objects(key)
        await self._look_for_pods(key, objects)
        return await self._assemble(key, job, objects, refresh=refresh)

    def _objects(self, key: JobKey) -> dict[Place, Object]:
        return {**self.foreign.of(key), **self.store.objects(key)}

    async def _look_again(self, key: JobKey, plain: Object) -> None:
        kind = kinds.kind_of(text_at(plain, "apiVersion"), text_at(plain, "kind"))
        name = text_at(plain, "metadata", "name")
        await self._read(key, kind, name, {})

    def refused(self, key: JobKey, what: str, error: ApiError) -> Refusal:
        """Remember a refused write. A further refusal for the same object keeps the time of the first one."""
        known = self.refusals.get(key)
        since = known.since if known is not None and known.what == what else self.wall()
        text = f"{error.code} {error.reason}: {error.message}"
        found = Refusal(what, text[:REFUSAL_CHARS_MAX], since, error.transient)
        self.refusals[key] = found
        return found

    def forget(self, key: JobKey) -> None:
        """Forget a job whose StreamJob no longer exists."""
        self.trust.pop(key, None)
        self.troubles.pop(key, None)
        self.refusals.pop(key, None)
        self.foreign.forget(key)

    async def look_closely(self, key: JobKey, *, refresh: bool) -> Observed | None:
        """Read live: the job, StatefulSet (and its pods), ``-desired``, ``-latest``, ``-status``.

        This order matters. An operator that adds workers writes the StatefulSet first and then
        ``-desired``. The leader commits the new number last. So ``-latest``, which is read after
        them, cannot be older than the StatefulSet and ``-desired`` that were read.
        """
        job = await self._job(key)
        if job is None:
            return None
        objects = self._objects(key)
        for kind, name in _live(key):
            await self._read(key, kind, name, objects)
            if kind is kinds.STATEFUL_SET:
                await self._pods(key, objects)
        await self._snapshots(key, objects)
        await self._secrets(key, text_at(job, "metadata", "uid"), objects, refresh=refresh)
        await self._look_for_pods(key, objects)
        return await self._assemble(key, job, objects, refresh=refresh)

    async def _job(self, key: JobKey) -> Object | None:
        """Read the job live, because the watch may not have reported its deletion yet."""
        known = self.store.job(key)
        if known is None:
            return None
        kind = kinds.STREAM_JOB
        found = await self.client.get(kind, key.namespace, key.name)
        if found is None:
            self.store.remove(known)
            return None
        job: Object = {**found, "apiVersion": kind.api_version, "kind": kind.kind}
        self.store.keep(job)
        return job

    async def look_at_orphans(self, key: JobKey) -> Observed | None:
        """Observe the StreamSnapshots of a StreamJob that does not exist; None when it exists."""
        if key.name and await self.client.get(kinds.STREAM_JOB, key.namespace, key.name):
            return None  # it exists, but the watch has not reported it yet
        job = JobView(key.name, key.namespace, "", 0, None, StreamJobStatus())
        moment = ObservationContext(self.wall())
        return build_observation(job, self.store.objects(key).values(), moment, self.versions)

    async def _read(self, key: JobKey, kind: Kind, name: str, objects: dict[Place, Object]) -> None:
        found = await self.client.get(kind, key.namespace, name)
        objects.pop((kind.kind, name), None)
        if found is None:
            self.foreign.remove(key, (kind.kind, name))
            return
        plain: Object = {**found, "apiVersion": kind.api_version, "kind": kind.kind}
        if kind is kinds.SECRET:
            plain = summary_of(plain)
        objects[kind.kind, name] = plain
        if is_foreign(plain, text_at(self.store.job(key), "metadata", "uid")):
            self.foreign.add(key, plain)
        else:
            self.foreign.remove(key, (kind.kind, name))

    async def _secrets(self, key: JobKey, uid: str, objects: dict[Place, Object], *, refresh: bool) -> None:
        """Read the Secrets that workers mount, and those of their authorities only when needed."""
        of_uid, known = self.trust.get(key, ("", {}))
        known = known if of_uid == uid else {}
        every = names.trust_secrets(key.name)
        for name in pod.secret_names(key.name):
            beside = names.authority_name(name)
            await self._read(key, kinds.SECRET, name, objects)
            view = trust_view(known.get(beside), objects.get(("Secret", name)))
            quiet = beside in known and not trust_steps(name, view, 1, self.wall())
            if refresh or not quiet:
                await self._read(key, kinds.SECRET, beside, objects)
            else:
                objects["Secret", beside] = known[beside]
        found = {n: objects["Secret", n] for n in every if ("Secret", n) in objects}
        # Foreign Secrets are not kept here: self.foreign has them until they are gone.
        self.trust[key] = (uid, {n: o for n, o in found.items() if job_of(o) == uid})

    async def _pods(self, key: JobKey, objects: dict[Place, Object]) -> None:
        """List the pods live if the StatefulSet has no replicas: a start has to see every old pod."""
        found = objects.get(("StatefulSet", pod.workers_name(key.name)))
        if whole_at(found, "spec", "replicas") > 0:
            return
        for place in [p for p in objects if p[0] == "Pod"]:
            del objects[place]
        selector = f"{pod.LABEL_JOB}={key.name}"
        for plain in await self.client.list_some(kinds.POD, key.namespace, labelSelector=selector):
            if isinstance(plain, dict):
                found = {**plain, "apiVersion": "v1", "kind": "Pod"}
                objects["Pod", text_at(found, "metadata", "name")] = found

    async def _snapshots(self, key: JobKey, objects: dict[Place, Object]) -> None:
        """List StreamSnapshots live if a request names an unknown one: it may be new, or deleted."""
        desired = objects.get(("ConfigMap", pod.desired_name(key.name)))
        view = None if desired is None else self.versions.view(views.desired_view, desired)
        asked = set() if view is None else requested_snapshot_uids(view.value)
        known = {text_at(o, "metadata", "uid") for (k, _), o in objects.items() if k in SNAPSHOTS}
        if asked <= known:
            return
        for plain in await self._listed(kinds.STREAM_SNAPSHOT, key.namespace):
            if isinstance(plain, dict) and text_at(plain, "spec", "jobRef") == key.name:
                kind = kinds.STREAM_SNAPSHOT
                found: Object = {**plain, "apiVersion": kind.api_version, "kind": kind.kind}
                objects[kind.kind, text_at(found, "metadata", "name")] = found

    async def _listed(self, kind: Kind, namespace: str) -> list[Plain]:
        """List all; empty if the server does not know the kind, after its definition was deleted."""
        try:
            return await self.client.list_some(kind, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return []

    async def _look_for_pods(self, key: JobKey, objects: dict[Place, Object]) -> None:
        """While the StatefulSet has too few pods, read the reason every few seconds."""
        found = objects.get(("StatefulSet", pod.workers_name(key.name)))
        missing = whole_at(found, "spec", "replicas") - whole_at(found, "status", "replicas")
        if found is None or missing <= 0:
            self.troubles.pop(key, None)
            return
        now = self.clock()
        asked, _ = self.troubles.get(key, (-EVENTS_ASKED_EVERY_S, ""))
        if now - asked >= EVENTS_ASKED_EVERY_S:
            self.troubles[key] = (now, await self._set_trouble(key, found))

    async def _set_trouble(self, key: JobKey, found: Plain) -> str:
        """Return why the StatefulSet cannot create its pods, from its newest Warning event."""
        uid = text_at(found, "metadata", "uid")
        events = await self.client.list_some(
            kinds.EVENT, key.namespace, fieldSelector=f"involvedObject.uid={uid},type=Warning"
        )
        texts = [
            (text_at(e, "lastTimestamp"), text_at(e, "message"))
            for e in events
            if text_at(e, "reason") == "FailedCreate"
        ]
        return max(texts, default=("", ""))[1]

    async def _assemble(self, key: JobKey, job: Object, objects: dict[Place, Object], *, refresh: bool) -> Observed:
        uid = text_at(job, "metadata", "uid")
        listed: list[Plain] = list(objects.values())
        of_uid, secrets = self.trust.get(key, ("", {}))
        listed += [secret for name, secret in secrets.items() if of_uid == uid and ("Secret", name) not in objects]
        wanted = object_at(job, "spec", "replay")
        moment = ObservationContext(
            now=self.wall(),
            refresh=refresh,
            spark_installed=bool(wanted) and _spark_of(wanted) in self.spark,
            set_trouble=self.troubles.get(key, (0.0, ""))[1],
            refusal=self.refusals.get(key),
            look_again_s=self.foreign.due_in_s(key),
            restored_from=self._restored_from(key, job, listed),
            namespace_ends=_holds(job, listed) and await self._ends(key.namespace),
            secrets_read=of_uid == uid,
        )
        return build_observation(self.versions.view(views.job_view, job), listed, moment, self.versions)

    def _restored_from(self, key: JobKey, job: Plain, listed: list[Plain]) -> frozenset[str]:
        """Return the snapshots that jobs of the namespace restore from, if retention may delete any."""
        known = sum(text_at(plain, "kind") in SNAPSHOTS for plain in listed)
        if not may_exceed_retention(self.versions.view(views.job_view, job), known):
            return frozenset()
        near = [k for k in self.store.jobs() if k.namespace == key.namespace]
        return views.restores_of(filter(None, map(self.store.job, near)))

    async def _ends(self, namespace: str) -> bool:
        """Return whether the namespace is being deleted. Called only while a deletion waits for us."""
        asked, known = self.ending.get(namespace, (-NAMESPACE_ASKED_EVERY_S, False))
        now = self.clock()
        if now - asked >= NAMESPACE_ASKED_EVERY_S:
            try:
                found = await self.client.get(kinds.NAMESPACE, "", namespace)
            except ApiError as error:
                if error.code != 403:  # the operator may not read namespaces: deletions then end by their deadline
                    raise
                found = None
            known = bool(text_at(found, "metadata", "deletionTimestamp"))
            self.ending[namespace] = (now, known)
        return known


def _spark_of(replay: Plain) -> Kind:
    apache = text_at(replay, "flavour") == OperatorFlavour.APACHE
    return kinds.SPARK_APACHE if apache else kinds.SPARK_KUBEFLOW


def _holds(job: Plain, listed: list[Plain]) -> bool:
    """Return whether the job or a snapshot is being deleted and waits for our finalizer."""
    ours = (p for p in (job, *listed) if text_at(p, "kind") in {"StreamJob", *SNAPSHOTS})
    return any(views.deleting_since(p) is not None and names.FINALIZER in views.finalizers(p) for p in ours)


def _live(key: JobKey) -> tuple[tuple[Kind, str], ...]:
    return (
        (kinds.STATEFUL_SET, pod.workers_name(key.name)),
        (kinds.CONFIG_MAP, pod.desired_name(key.name)),
        (kinds.CONFIG_MAP, pod.latest_name(key.name)),
        (kinds.CONFIG_MAP, pod.status_name(key.name)),
    )
