"""A client with a dictionary in place of the API server: just what a reconcile needs."""

import json
import ssl
import uuid

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.codec import decode
from penstock.contract.ids import Attempt, BlobName, Epoch, SwapId, Term, Version
from penstock.contract.latest import Desired, Latest, Retained, encode_latest
from penstock.contract.manifest import BlobRef
from penstock.contract.schema import Plain
from penstock.kubernetes.answers import ApiError
from penstock_operator.api import names
from penstock_operator.api.kinds import Kind
from penstock_operator.api.plain import Object, object_at, text_at
from penstock_operator.cluster.client import Access, Client
from penstock_operator.cluster.store import JobKey, Store

KEY = JobKey("apps", "wc")
SPACE = "/namespaces/apps/"
CORE = "/api/v1/namespaces/apps"
JOB_PATH = "/apis/penstock.dev/v1alpha1/namespaces/apps/streamjobs/wc"


class FakeApi(Client):
    """Objects by path. ``asked`` lists verb and plural of each call; ``refusal`` is raised.

    ``lacks`` are the fields of a status that the definition does not have: the server drops them.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__(Access("", ssl.create_default_context(), None), lambda *_: None)
        self.objects: dict[str, Object] = {}
        self.asked: list[str] = []
        self.refusal: ApiError | None = None
        self.lacks: set[str] = set()
        self.count = 100

    def put(self, path: str, plain: Object) -> Object:
        """Write an object as another client."""
        self.count += 1
        made: Object = json.loads(json.dumps(plain))
        metadata = {"uid": str(uuid.uuid4()), **object_at(made, "metadata")}
        made["metadata"] = {**metadata, "resourceVersion": str(self.count)}
        self.objects[path] = made
        return dict(made)

    async def _ask(
        self,
        method: str,
        verb: str,
        kind: Kind,
        path: str,
        body: Object | None = None,
        *,
        query: dict[str, str] | None = None,
        content: str = "",
    ) -> Object:
        self.asked.append(f"{verb} {kind.plural}")
        if self.refusal is not None:
            raise self.refusal
        if path.endswith("/status") and body is not None:
            kept = {name: value for name, value in object_at(body, "status").items() if name not in self.lacks}
            body = {**body, "status": kept}
        path = path.removesuffix("/status")
        if method == "GET" and path.endswith(kind.plural):
            prefix = f"{path}/"
            return {"items": [dict(o) for p, o in self.objects.items() if p.startswith(prefix)]}
        known = self.objects.get(path)
        if method == "DELETE" and known is not None:
            return self.objects.pop(path)
        if method in {"GET", "DELETE"} or body is None or (verb == "patch" and known is None):
            if known is None:
                raise ApiError(404, "NotFound", path)
            return dict(known)
        if method == "POST":
            path = f"{path}/{text_at(body, 'metadata', 'name')}"
            if path in self.objects:
                raise ApiError(409, "AlreadyExists", path)
        both = {**object_at(known, "metadata"), **object_at(body, "metadata")}
        marks = {
            **object_at(known, "metadata", "annotations"),
            **object_at(body, "metadata", "annotations"),
        }
        made = {**(known or {}), **body, "metadata": {**both, "annotations": marks}}
        if known is not None and _aside(made) == _aside(known):
            return dict(known)
        return self.put(path, made)

    def show(self, store: Store) -> list[JobKey]:
        """Report all objects by a watch. Returns the jobs that this queues."""
        found: list[JobKey] = []
        for path, plain in list(self.objects.items()):
            kind = text_at(plain, "kind")
            if kind not in {"Secret", "Event"} and SPACE in path:
                found += store.put(dict(plain))
        return found

    def play(self, epoch: int) -> None:
        """Create two ready pods and a settled leader that has committed ``epoch``."""
        job = self.objects[JOB_PATH]
        uid = text_at(job, "metadata", "uid")
        for ordinal in (0, 1):
            name = f"{pod.workers_name('wc')}-{ordinal}"
            ready: list[Plain] = [{"type": "Ready", "status": "True"}]
            labels: Object = dict(names.labels("wc", uid))
            if f"{CORE}/pods/{name}" not in self.objects:
                metadata: Object = {"name": name, "namespace": "apps", "labels": labels}
                made: Object = {"kind": "Pod", "metadata": metadata}
                self.put(f"{CORE}/pods/{name}", {**made, "status": {"conditions": ready}})
        workers = f"/apis/apps/v1/namespaces/apps/statefulsets/{pod.workers_name('wc')}"
        if "status" not in self.objects[workers]:
            self.put(workers, {**self.objects[workers], "status": {"replicas": 2}})
        desired = self.objects[f"{CORE}/configmaps/{pod.desired_name('wc')}"]
        run = decode(Desired, text_at(desired, "data", pod.RECORD).encode()).run
        path = f"{CORE}/configmaps/{pod.latest_name('wc')}"
        first = decode(Latest, text_at(self.objects[path], "data", pod.RECORD).encode())
        root = BlobRef(BlobName(f"{epoch}.root"), "", 1)
        value = replace(
            first,
            swap_id=SwapId(f"s{epoch}"),
            term=Term(1),
            attempt=Attempt(1),
            version=Version(1),
            settled=Version(1),
            workers=2,
            epoch=Epoch(epoch),
            max_epoch=Epoch(epoch),
            root=root,
            retained=(Retained(Epoch(epoch), root),),
            run=run,
        )
        data: Object = {pod.RECORD: encode_latest(value).decode()}
        self.put(path, {**self.objects[path], "data": data})


def _aside(plain: Plain) -> Plain:
    """Leave out what also differs after a write that changes nothing."""
    metadata = {k: v for k, v in object_at(plain, "metadata").items() if k != "resourceVersion"}
    return {**object_at(plain), "metadata": metadata}
