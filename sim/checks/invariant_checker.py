"""The checker of invariants: it checks every swap, deletion and publication at once.

E  output that the object calls published is visible
G  nothing of a stale term or attempt becomes visible: a commit is of the attempt that holds, and
   published output was committed before
C  after every commit the listed files are copied elsewhere, the copy is restored, and the result is
   compared with the fold of the input; no file that a retained checkpoint lists is ever deleted
"""

from penstock.contract.codec import ABSENT
from penstock.contract.control_messages import MembersFile
from penstock.contract.ids import BlobName
from penstock.contract.keygroups import groups_of
from penstock.contract.latest import Desired, Latest, Unpublished, how_of
from penstock.contract.manifest import RootManifest, StateFile, TaskManifest
from penstock.contract.plan import Assignment
from penstock.protocol.savepoints import files_of
from sim.checks.balance_checker import BalanceChecker
from sim.checks.oracle import OutputJudge, check_restorable
from sim.checks.restore_checker import RestoreChecker
from sim.cluster.protocol_monitor import ProtocolMonitor
from sim.cluster.savepoint_files import Index, at, index_name
from sim.cluster.services import Disk, Torn
from sim.cluster.task_files import publication
from sim.kernel.calls import ROOT_FILE, SAVEPOINTS, STAGING
from sim.kernel.kernel import SimKernel, Violation
from sim.workload import SimJob, group_of


class InvariantChecker:
    """It is called at every effect. Raises Violation."""

    def __init__(self, kernel: SimKernel, job: SimJob, disk: Disk) -> None:
        self.kernel = kernel
        self.job = job
        self.disk = disk
        self.output = OutputJudge(job)
        self.monitor = ProtocolMonitor()
        self.latest: Latest | None = None
        self.committed: dict[str, int] = {}
        self.rows: dict[str, object] = {}
        self.sinks: dict[str, str] = {}  # by staged file
        self.staged: dict[str, int] = {}
        self.tables: dict[int, Assignment] = {}
        self.lost_object = self.moved = False
        self.savepoints: dict[str, Index] = {}
        self.restores = RestoreChecker(self._root, self._saved)
        self.balances = BalanceChecker()

    def begin_job(self) -> None:
        """Check another job, which goes on in the same output folder."""
        self.monitor = ProtocolMonitor()
        self.latest = None
        self.tables = {}
        self.moved = True

    def wanted(self, desired: Desired) -> None:
        """Learn what the user wants."""
        self.restores.wanted(desired)

    # --- The job's object

    def swapped(self, name: str, old: object, new: object) -> None:
        """Check a change of the job's object; other objects are ignored."""
        if not isinstance(new, Latest):
            return
        if isinstance(old, Latest):
            self._compare(old, new)
        self.latest = new
        self._check_listed(new)
        found = self.disk.files.get(new.members.name) if new.members is not None else None
        members = found if isinstance(found, MembersFile) else None
        self.monitor.learn(new, members)
        if members is not None:
            if members.proposed is not None and members.proposed.version not in self.tables:
                self.kernel.happened("joiners admitted")
            for table in (members.assignment, members.proposed):
                if table is not None:
                    self.tables[table.version] = table
        if isinstance(old, Latest) and new.balance != old.balance:
            self.balances.check(new.balance, self.tables[old.version], self.tables[new.version])
        elif isinstance(old, Latest) and new.version > old.version and new.attempt == old.attempt:
            self.balances.check_kept(self.tables[old.version], self.tables[new.version])

    def _compare(self, old: Latest, new: Latest) -> None:
        if new.term < old.term or new.attempt < old.attempt or new.version < old.version:
            raise Violation("G", f"numbers went back: {_numbers(old)} to {_numbers(new)}")
        if new.term == old.term and new.leader != old.leader:
            raise Violation("G", f"term {new.term} has two leaders")
        if new.max_epoch < old.max_epoch:
            raise Violation("C", f"maxEpoch went back from {old.max_epoch} to {new.max_epoch}")
        self._count(old, new)
        self.restores.check(old, new)
        self._check_imported(old, new)
        self._check_published(old, new)
        if new.epoch == old.epoch and new.version != old.version and new.attempt == old.attempt:
            raise Violation("G", f"version {new.version} was committed without an epoch")
        self.output.replay = new.replayed
        for answer in new.answers:
            if answer.ok and answer.text.startswith(SAVEPOINTS):
                self._check_savepoint(answer.text)
        if new.root != old.root and new.root is not None and new.restored == old.restored:
            self._committed(old, new)

    def _check_imported(self, old: Latest, new: Latest) -> None:
        """Check a manifest that a restore has written: it was committed as no epoch of this job."""
        known = {old.root, *(each.root for each in old.retained)}
        if new.restored != old.restored and new.root is not None and new.root not in known:
            root = self._root(new.root.name)
            check_restorable(self.job, root, root.assignment, self.disk)

    def _check_published(self, old: Latest, new: Latest) -> None:
        """Check that published and forgotten epochs are visible, or given up by name."""
        due = [new.published_through] if new.published_through > old.published_through else []
        if new.root is None:
            due.append(old.epoch)
        for target, epoch in self.committed.items():
            if epoch not in due or target in self.disk.visible:
                continue
            if not _is_lost(new, epoch, sink_of(target)):
                raise Violation("E", f"epoch {epoch} is let go, and {target} is not visible")
            if not self.restores.may_lose(new.restored, sink_of(target)):
                raise Violation("E", f"{target} is given up, and nobody has asked for that")
            self.output.given_up(sink_of(target), self.rows[target])
            self.kernel.happened("output given up")

    def _count(self, old: Latest, new: Latest) -> None:
        seen = {
            "began without state": old.epoch > 0 == new.epoch,
            "leader changed": new.term != old.term > 0,
            "rollback to a checkpoint": new.attempt != old.attempt and old.epoch > 0,
            "rescale undone": new.attempt == old.attempt
            and bool(old.pinned and not new.pinned)
            and new.settled != new.version,
            "rescale settled": new.attempt == old.attempt and new.settled > old.settled,
            "schemes changed": new.schemes != old.schemes and old.version > 0,
            "scheme refused": new.refused != old.refused,
            "balanced by load": new.balance != old.balance and new.balance is not ABSENT and new.balance.moved > 0,
            "balance not needed": new.balance != old.balance and new.balance is not ABSENT and not new.balance.moved,
            "rescale by a rollback": new.attempt != old.attempt and new.version != old.version > 0,
        }
        for what, is_so in seen.items():
            if is_so:
                self.kernel.happened(what)

    def _committed(self, old: Latest, new: Latest) -> None:
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
        self.monitor.committed(new.attempt, new.term, new.epoch)
        self._check_first_listed(old, root)
        check_restorable(self.job, root, self.tables[old.version], self.disk)
        for task in root.tasks:
            for handle in task.handles:
                published = publication(handle, root.epoch)
                self.committed[published.target] = root.epoch
                self.rows[published.target] = published.content
                self.sinks[published.staged] = handle.sink
                self.staged[published.staged] = root.epoch
        self.balances.committed(root)
        self.kernel.happened(f"committed a {root.kind}")

    def _check_first_listed(self, old: Latest, root: RootManifest) -> None:
        known = self.listed(old)
        for task in root.tasks:
            for file in task.files:
                if file.blob.name not in known:
                    self._check_new_file(old, root, task, file)

    def _check_new_file(self, old: Latest, root: RootManifest, task: TaskManifest, file: StateFile) -> None:
        """Check that the epoch that cut a file lists it first, and that it has its writer's groups."""
        name, cut = file.blob.name, f"{root.term}-{root.epoch}-"
        if not name.startswith(cut):
            raise Violation("C", f"epoch {root.epoch} of term {root.term} first lists {name}")
        owned = set(groups_of(self.tables[old.version].share_of(task.task)))
        content = self._file(name)
        rows = content if isinstance(content, tuple) else ()
        strange = [k for k, _ in rows if group_of(k[0], self.job.shape.groups) not in owned]
        if strange:
            raise Violation("C", f"{name} of {task.task} holds keys {strange[:4]} of others")

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

    # --- Savepoints

    def indexed(self, name: BlobName, content: object) -> None:
        """Check a copy when it becomes a savepoint: all its files are durable."""
        assert isinstance(content, Index)
        path = name.removesuffix("/savepoint.json")
        self.kernel.happened("savepoint complete")
        self.savepoints[path] = content
        self._check_savepoint(path)

    def _check_savepoint(self, path: str) -> None:
        """Restore a savepoint from its own files alone."""
        index = self.savepoints.get(path)
        if index is None:
            raise Violation("C", f"{path} is reported complete without an index")
        root = self._saved(path)
        copy = Disk({b.name: self._file(at(path, index.folder, b).name) for b in files_of(root)})
        check_restorable(self.job, root, root.assignment, copy)

    def _saved(self, path: str) -> RootManifest:
        """Return the manifest of a complete savepoint."""
        index = self.savepoints[path]
        return self._root(at(path, index.folder, index.root).name)

    def _is_saved(self, name: BlobName) -> bool:
        return any(
            name == index_name(path) or name.startswith(f"{path}/{index.folder}/")
            for path, index in self.savepoints.items()
        )

    # --- Files and output

    def deleted(self, name: BlobName) -> None:
        """Check a deletion: the file must be garbage by the present object."""
        if name in self.disk.files and self._is_saved(name):
            raise Violation("C", f"{name} of a complete savepoint is deleted")
        if self.latest is not None and name in self.listed(self.latest):
            raise Violation("C", f"{name} is deleted though it is listed")

    def published(self, target: str, staged: str, content: object) -> None:
        """Check output when it becomes visible."""
        if target not in self.committed:
            raise Violation("G", f"{target} is published but was never committed")
        assert isinstance(content, tuple)
        self.output.appeared(target, sink_of(target), content)

    def is_given_up(self, target: str) -> bool:
        """Return whether a restore gives this output up, or has given it up."""
        epoch, sink, latest = self.committed.get(target), sink_of(target), self.latest
        if latest is None or epoch is None:
            return False
        return _is_lost(latest, epoch, sink) or (epoch == latest.epoch and _drops(latest, sink))

    def unstaged(self, name: BlobName) -> None:
        """Check the removal of staged output: it must never have to be published again."""
        epoch = self.staged.get(name, 0)
        if self.latest is None or epoch in self.latest.lost_output:
            return
        if epoch == self.latest.epoch > self.latest.published_through and not _drops(self.latest, self.sinks[name]):
            raise Violation("E", f"{name} goes before epoch {epoch} is recorded as published")

    # --- At rest

    def left(self, latest: Latest, *, undisturbed: bool) -> list[str]:
        """N: list the files that no manifest lists and no later epoch would collect, also those of members.

        Staged output that a fault orphaned is swept by the next attempt; here none follows.
        """
        if self.moved:
            return []  # what the job before has left in its directory is not this one's
        listed = self.listed(latest)
        left = []
        for name in self.disk.files:
            if name in listed or name == ROOT_FILE:
                continue
            if name.startswith(SAVEPOINTS):
                if undisturbed and not self._is_saved(name):
                    left.append(name)
                continue
            if name.startswith(STAGING):
                if undisturbed:
                    left.append(name)
            elif latest.finished or int(name.split("-", 2)[1]) <= latest.epoch:
                left.append(name)
        return sorted(left)


def _numbers(latest: Latest) -> str:
    return f"term {latest.term} attempt {latest.attempt} version {latest.version}"


def sink_of(target: str) -> str:
    """Return the sink whose output is visible under the name ``target``."""
    return target.split("-")[1]


def _is_lost(latest: Latest, epoch: int, sink: str) -> bool:
    """Return whether the object names output as given up. Without a sink it means all of the epoch."""
    rows = () if latest.lost_rows is ABSENT else latest.lost_rows
    named = [each.sink for each in rows if each.epoch == epoch]
    return epoch in latest.lost_output and (not named or sink in named)


def _drops(latest: Latest, sink: str) -> bool:
    return how_of(sink, latest.handling()) is Unpublished.DROP
