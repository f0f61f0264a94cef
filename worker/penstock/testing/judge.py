"""Watches the stores while a run goes on: every swap, deletion and publication is judged at once.

G  nothing of a stale term or attempt becomes visible: what is committed is of the attempt that
   holds, what is published was committed before
C  after every commit: copy only what it lists elsewhere, restore the copy, compare with the fold
   of the input; and nothing that a retained checkpoint lists is ever deleted
"""

from penstock.contract.assignment import Assignment
from penstock.contract.control import MembersFile
from penstock.contract.ids import BlobName
from penstock.contract.latest import Latest
from penstock.contract.manifest import RootManifest
from penstock.testing.calls import ROOT_FILE, STAGING
from penstock.testing.kernel import Kernel, Violation
from penstock.testing.oracle import OutputJudge, check_restorable
from penstock.testing.services import Disk, Torn
from penstock.testing.task_files import publication
from penstock.testing.workload import Job


class Judge:
    """Told of every effect at the moment it happens; raises Violation."""

    def __init__(self, kernel: Kernel, job: Job, disk: Disk) -> None:
        self.kernel = kernel
        self.job = job
        self.disk = disk
        self.output = OutputJudge(job)
        self.commits = 0
        self.terms = 0
        self.attempts = 0
        self.latest: Latest | None = None
        self.committed: dict[str, int] = {}
        self.tables: dict[int, Assignment] = {}
        self.lost_object = False

    # --- The job's object

    def swapped(self, name: str, old: object, new: object) -> None:
        """Judge a change of the job's object; others are of no interest."""
        if not isinstance(new, Latest):
            return
        if isinstance(old, Latest):
            self._compare(old, new)
        self.latest = new
        self._check_listed(new)
        members = self.disk.files.get(new.members.name) if new.members is not None else None
        if isinstance(members, MembersFile):
            for table in (members.assignment, members.proposed):
                if table is not None:
                    self.tables[table.version] = table

    def _compare(self, old: Latest, new: Latest) -> None:
        if new.term < old.term or new.attempt < old.attempt or new.version < old.version:
            raise Violation("G", f"numbers went back: {_numbers(old)} to {_numbers(new)}")
        if new.term == old.term and new.leader != old.leader:
            raise Violation("G", f"term {new.term} has two leaders")
        if new.max_epoch < old.max_epoch:
            raise Violation("C", f"maxEpoch went back from {old.max_epoch} to {new.max_epoch}")
        if new.term != old.term:
            self.terms += 1
        if new.attempt != old.attempt:
            self.attempts += 1
        if new.epoch == old.epoch and new.version != old.version and new.attempt == old.attempt:
            raise Violation("G", f"version {new.version} was committed without an epoch")
        self.output.replay = new.replayed
        if new.root != old.root and new.root is not None and new.restored == old.restored:
            self._committed(old, new)

    def _committed(self, old: Latest, new: Latest) -> None:
        self.commits += 1
        assert new.root is not None
        root = self._root(new.root.name)
        if root.epoch != new.epoch or root.epoch <= old.max_epoch:
            raise Violation("G", f"epoch {root.epoch} after {old.max_epoch} was committed")
        if root.attempt != new.attempt or root.attempt != old.attempt or root.term != new.term:
            raise Violation("G", f"epoch {root.epoch} of attempt {root.attempt} is stale")
        if root.assignment.version not in {old.version, new.version}:
            raise Violation("G", f"epoch {root.epoch} holds version {root.assignment.version}")
        if old.published_through < old.epoch and new.published_through < old.epoch:
            raise Violation("E", f"epoch {root.epoch} began before {old.epoch} was published")
        if self.lost_object:
            raise Violation("C", f"epoch {root.epoch} was committed beside lost checkpoints")
        self._check_first_listed(old, root)
        check_restorable(self.job, root, self.tables[old.version], self.disk)
        for task in root.tasks:
            for handle in task.handles:
                self.committed[publication(handle, root.epoch).target] = root.epoch
        self.kernel.happened(f"committed a {root.kind}")

    def _check_first_listed(self, old: Latest, root: RootManifest) -> None:
        known = self.listed(old)
        for task in root.tasks:
            for file in task.files:
                name = file.blob.name
                if name not in known and int(name.split("-", 2)[1]) != root.epoch:
                    raise Violation("C", f"epoch {root.epoch} is the first to list {name}")

    def _check_listed(self, latest: Latest) -> None:
        missing = [n for n in self.listed(latest) if isinstance(self._file(n), Torn)]
        if missing:
            raise Violation("C", f"{missing[0]} is listed but gone or torn")

    def _file(self, name: BlobName) -> object:
        return self.disk.files.get(name, Torn())

    def _root(self, name: BlobName) -> RootManifest:
        root = self._file(name)
        if not isinstance(root, RootManifest):
            raise Violation("C", f"root manifest {name} is gone or torn")
        return root

    def listed(self, latest: Latest) -> dict[BlobName, None]:
        """List every file that the job's object protects, directly or through a manifest."""
        roots = [r.root.name for r in (*latest.retained, *latest.pinned)]
        if latest.root is not None:
            roots.append(latest.root.name)
        names: dict[BlobName, None] = dict.fromkeys(roots)
        if latest.members is not None:
            names[latest.members.name] = None
        for name in roots:
            for task in self._root(name).tasks:
                names.update(dict.fromkeys(f.blob.name for f in task.files))
        return names

    # --- Files and output

    def deleted(self, name: BlobName) -> None:
        """Judge a deletion: it must be garbage under the object as it is now."""
        if self.latest is not None and name in self.listed(self.latest):
            raise Violation("C", f"{name} is deleted though it is listed")

    def published(self, target: str, staged: str, content: object) -> None:
        """Judge output at the moment it becomes visible."""
        if target not in self.committed:
            raise Violation("G", f"{target} is published but was never committed")
        assert isinstance(content, tuple)
        self.output.appeared(target, target.split("-")[1], content)

    # --- At rest

    def left(self, latest: Latest, *, undisturbed: bool) -> list[str]:
        """N: list what nothing lists, but what a later epoch would collect.

        Staged output that a fault orphaned is swept by the next attempt; here none follows.
        """
        listed = self.listed(latest)
        left = []
        for name, content in self.disk.files.items():
            if name in listed or name == ROOT_FILE or isinstance(content, MembersFile):
                continue
            if name.startswith(STAGING):
                if undisturbed:
                    left.append(name)
            elif int(name.split("-", 2)[1]) <= latest.epoch:
                left.append(name)
        return sorted(left)


def _numbers(latest: Latest) -> str:
    return f"term {latest.term} attempt {latest.attempt} version {latest.version}"
