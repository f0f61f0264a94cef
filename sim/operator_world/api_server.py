"""A fake API server for the operator's simulation: versions, uids, conflicts, owner references."""

from dataclasses import dataclass, field

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock_operator.api.plain import Object, object_at, stamp, text_at, texts_at

Key = tuple[str, str]


class ConflictError(Exception):
    """A write relied on a version, on a uid, or on the absence of the object, and this changed."""


@dataclass(slots=True)
class FakeApi:
    """The objects of one namespace by kind and name. ``log`` lists all writes, the newest last.

    Each uid contains the ``seed``, so that no two runs share one: no two clusters do.
    """

    seed: int = 0
    objects: dict[Key, Object] = field(default_factory=dict)
    count: int = 0
    log: list[tuple[str, Key]] = field(default_factory=list)

    def get(self, kind: str, name: str) -> Object | None:
        """Return a copy of an object: nobody changes one in place."""
        found = self.objects.get((kind, name))
        return None if found is None else dict(found)

    def create(self, manifest: Object, *, uid: str = "") -> Object:
        """Create an object. Raises ConflictError if it exists."""
        key = key_of(manifest)
        if key in self.objects:
            raise ConflictError(f"{key} exists")
        self.count += 1
        made = dict(manifest)
        metadata = dict(object_at(made, "metadata"))
        metadata["uid"] = uid or f"u{self.count:07d}-{self.seed}"
        metadata["resourceVersion"] = str(self.count)
        made["metadata"] = metadata
        self._bump_generation(made, None)
        self.objects[key] = made
        self.log.append(("create", key))
        return made

    def put(self, changed: Object, *, version: str = "", verb: str = "update") -> None:
        """Replace an object. Raises ConflictError if it is gone or has a newer version."""
        key = key_of(changed)
        old = self.objects.get(key)
        if old is None or (version and version != text_at(old, "metadata", "resourceVersion")):
            raise ConflictError(f"{key} changed")
        if changed == old:
            return
        self.count += 1
        made = dict(changed)
        metadata = dict(object_at(made, "metadata"))
        made["metadata"] = metadata
        metadata["resourceVersion"] = str(self.count)
        metadata["uid"] = text_at(old, "metadata", "uid")
        self._bump_generation(made, old)
        self.objects[key] = made
        self.log.append((verb, key))
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._remove(key)

    def apply(self, manifest: Object, *, uid: str, version: str = "") -> None:
        """Apply an object, simplified: labels and annotations are merged; owners, spec and data are replaced.

        The object must have this ``uid``. With an empty one it must not exist, else this raises
        ConflictError.
        """
        key = key_of(manifest)
        old = self.get(*key)
        if not uid:
            self.create(manifest)
            return
        if old is None or text_at(old, "metadata", "uid") != uid:
            raise ConflictError(f"{key} is gone, or another one")
        metadata = {**object_at(old, "metadata")}
        for part in ("labels", "annotations"):
            merged = {**texts_at(old, "metadata", part), **texts_at(manifest, "metadata", part)}
            metadata[part] = dict(merged)
        owners = object_at(manifest, "metadata").get("ownerReferences")
        if owners is not None:  # a manager that applies owns the references that it gave before
            metadata["ownerReferences"] = owners
        self.put({**old, **manifest, "metadata": metadata}, version=version, verb="apply")

    def delete(self, key: Key, *, uid: str = "", now: float = 0.0, by_force: bool = False) -> None:
        """Delete an object. One with finalizers, or a pod without ``by_force``, is only marked."""
        old = self.get(*key)
        if old is None:
            return
        if uid and uid != text_at(old, "metadata", "uid"):
            raise ConflictError(f"{key} is another one")
        metadata = dict(object_at(old, "metadata"))
        if by_force:
            self._remove(key)
            return
        if metadata.get("deletionTimestamp"):
            return
        if metadata.get("finalizers") or key[0] == "Pod":
            metadata["deletionTimestamp"] = stamp(now)
            metadata["generation"] = int(str(metadata.get("generation", 0))) + 1
            metadata.setdefault("finalizers", ["kubelet"] if key[0] == "Pod" else [])
            self.put({**old, "metadata": metadata}, verb="delete")
            return
        self._remove(key)

    def _remove(self, key: Key) -> None:
        self.count += 1
        del self.objects[key]
        self.log.append(("delete", key))

    def finish_pod(self, key: Key) -> None:
        """Remove a pod whose processes the kubelet has ended."""
        self._remove(key)

    def collect(self, now: float) -> bool:
        """Collect garbage: delete one object whose owner is gone. True if there was one."""
        uids = {text_at(o, "metadata", "uid") for o in self.objects.values()}
        for key in sorted(self.objects):
            metadata = self.objects[key]["metadata"]
            owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
            if isinstance(owners, list) and owners:
                owner = text_at(owners[0], "uid")
                marked = text_at(self.objects[key], "metadata", "deletionTimestamp")
                if owner not in uids and not marked:
                    self.delete(key, now=now)
                    return True
        return False

    def listed(self) -> dict[Key, Object]:
        """Return what a watch has seen so far. Objects are never changed in place."""
        return dict(self.objects)

    def _bump_generation(self, made: Object, old: Object | None) -> None:
        metadata = object_at(made, "metadata")
        before = 0 if old is None else int(str(object_at(old, "metadata").get("generation", 1)))
        given = int(str(metadata.get("generation", 0)))
        changed = old is None or old.get("spec") != made.get("spec")
        metadata["generation"] = max(before + 1 if changed else before, given)


def key_of(manifest: Plain) -> Key:
    """Return the key of an object."""
    return text_at(manifest, "kind"), text_at(manifest, "metadata", "name")


def job_of(manifest: Plain) -> str:
    """Return the uid of the job from an object's label."""
    return texts_at(manifest, "metadata", "labels").get(pod.LABEL_JOB_UID, "")
