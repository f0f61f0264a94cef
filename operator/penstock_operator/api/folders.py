"""Which job's folder the path of a savepoint is in, below the root of a claim."""

from dataclasses import dataclass

from penstock.contract import pod
from penstock.contract.schema import plain_parts

PARTS_MIN = 3  # namespace, job, and what is in the job's folder


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the job ``job`` on a claim; ``inside`` is relative to that job's own."""

    namespace: str
    job: str
    inside: str

    @property
    def root(self) -> str:
        """Return the job's own folder in a container that mounts the claim."""
        return f"{pod.CHECKPOINT_FOLDER}/{self.namespace}/{self.job}"

    @property
    def path(self) -> str:
        """Return the folder in a container that mounts the claim."""
        return f"{self.root}/{self.inside}"


def folder_at(namespace: str, path: str) -> Folder | None:
    """Read a path; None when it is not in the folder of a job of this namespace.

    It starts at the root of the claim, or it is the path in a container, as status.path shows it.
    """
    parts = plain_parts(path) or []
    if path.startswith(f"{pod.CHECKPOINT_FOLDER}/"):
        parts = parts[len(plain_parts(pod.CHECKPOINT_FOLDER) or []) :]
    if len(parts) < PARTS_MIN or parts[0] != namespace:
        return None
    return Folder(parts[0], parts[1], "/".join(parts[2:]))
