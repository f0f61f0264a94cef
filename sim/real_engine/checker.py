"""What must hold in every run of real engines: rules at each commit and report, and the output at the end.

C  a committed epoch lists files that are there, and no task lists key groups that it does not own
C  a sender of pushed rows ends only when the newest checkpoint has all of them
C  a file that the job's object needs is not deleted, and is there at the end of the run
X  no code raises, other than that of a job whose servers refuse requests
C  copies of a side table are equal at a barrier, and one task stores its copy
C  a savepoint has all its files when its index appears and at the end of the run, and none of them is deleted
E  what an engine reports as published is visible; nothing is visible that is not committed
G  terms, attempts, versions and epochs never go back
N  at rest the job's directory has no file that the job's object does not need
"""

from penstock.base.errors import PenstockError
from penstock.connectors.published import OWNER
from penstock.contract import control_messages as msg
from penstock.contract.codec import ABSENT, decode
from penstock.contract.ids import Attempt, BlobName, Epoch, Ordinal, SplitId, Term, Version, parse_name
from penstock.contract.keygroups import groups_of
from penstock.contract.latest import Desired, Latest
from penstock.contract.manifest import BlobRef, RootManifest, TaskManifest
from penstock.contract.plan import Assignment
from penstock.protocol.savepoints import files_of
from penstock.protocol.state_entries import groups_of_files
from sim.cluster.savepoint_files import Index, at, index_name
from sim.kernel.calls import ROOT_FILE, SAVEPOINTS
from sim.kernel.kernel import SimKernel, Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.outputs import Outputs
from sim.real_engine.stored_files import SharedFolders

STOPS = ("first", "last")  # the savepoints with which scenarios stop a job


class RealChecker:
    """Watches the stores (:class:`sim.cluster.services.Watcher`) and the reports of engines."""

    def __init__(self, kernel: SimKernel, job: CheckedJob, stores: SharedFolders, outputs: Outputs) -> None:
        self._kernel = kernel
        self._job = job
        self.stores = stores
        self._outputs = outputs
        self._latest: Latest | None = None
        self._root: RootManifest | None = None
        self._manifests: dict[BlobName, RootManifest] = {}
        self._tables: dict[Version, Assignment] = {}
        self._digests: dict[tuple[Attempt, Term, Epoch, str], tuple[int, int]] = {}
        self.savepoints: dict[str, Index] = {}

    def begin_job(self, stores: SharedFolders) -> None:
        """Forget a job whose workers have ended: another one begins. Savepoints and output stay."""
        self.stores = stores
        self._latest = self._root = None
        self._tables.clear()
        self._manifests.clear()
        self._digests.clear()

    # --- The stores

    def swapped(self, name: str, old: object, new: object) -> None:
        """Check a new state of the job's object."""
        if not isinstance(new, Latest):
            return
        before = self._latest
        self._latest = new
        if before is not None:
            self._check_forward(before, new)
        if new.root is None:
            self._root = None
        elif before is None or new.root != before.root:
            self._committed(new, new.version if before is None else before.version)
        if before is None or new.published_through > before.published_through:
            self._check_visible(new.published_through, "the leader", None)

    def deleted(self, name: BlobName) -> None:
        """Check that a file may go."""
        if any(name.startswith((f"{path}/{i.folder}/", index_name(path))) for path, i in self.savepoints.items()):
            raise Violation("C", f"{name} of a complete savepoint is deleted")
        if name in {ref.name for ref in self._listed()}:
            raise Violation("C", f"{name} is deleted though it is listed")

    def published(self, target: str, staged: str, content: object) -> None:
        """Do nothing: engines publish by themselves."""

    def wanted(self, desired: Desired) -> None:
        """Do nothing."""

    def is_given_up(self, target: str) -> bool:
        """Return False: no restore of these runs gives output up."""
        return False

    def unstaged(self, name: BlobName) -> None:
        """Do nothing: engines stage by themselves."""

    def indexed(self, name: BlobName, content: object) -> None:
        """Check a copy when it becomes a savepoint."""
        assert isinstance(content, Index)
        path = name.removesuffix("/savepoint.json")
        self._kernel.happened("savepoint complete")
        self._check_savepoint(path, content)
        self.savepoints[path] = content

    def _check_savepoint(self, path: str, index: Index) -> None:
        root = decode(RootManifest, self._read(at(path, index.folder, index.root)))
        for blob in files_of(root):
            self._read(at(path, index.folder, blob))

    def _check_forward(self, old: Latest, new: Latest) -> None:
        numbers = ((old.term, new.term), (old.attempt, new.attempt), (old.version, new.version), (old.epoch, new.epoch))
        if any(before > after for before, after in numbers):
            raise Violation("G", f"numbers go back: {numbers}")
        if new.attempt != old.attempt and old.epoch > 0:
            self._kernel.happened("rollback to a checkpoint")
        if new.settled > old.settled:
            self._kernel.happened("rescale settled")

    def _committed(self, latest: Latest, ran: Version) -> None:
        """Check a new checkpoint of tasks that ran under the version ``ran``."""
        assert latest.root is not None
        root = self._root = self._manifest(latest.root)
        if root.epoch != latest.epoch:
            raise Violation("G", f"epoch {latest.epoch} names the manifest of epoch {root.epoch}")
        self._kernel.happened(f"committed a {root.kind}")
        for task in root.tasks:
            for file in task.files:
                self._read(file.blob)
        self._check_copies(root)
        self._tables[root.assignment.version] = root.assignment
        if ran in self._tables:
            self._check_groups(root, self._tables[ran])

    def _check_groups(self, root: RootManifest, table: Assignment) -> None:
        for task in root.tasks:
            owned = set(groups_of(table.share_of(task.task))) if task.files else set()
            grouped = tuple(file for file in task.files if file.state not in _copies(task))
            strange = set(groups_of(groups_of_files(grouped))) - owned
            if strange:
                raise Violation("C", f"epoch {root.epoch}: {task.task} lists groups of others: {sorted(strange)[:4]}")

    def _check_copies(self, root: RootManifest) -> None:
        """Check that one task stores each side table of which tasks have copies with rows, and no other one does."""
        kept = {copy for task in root.tasks for copy, (rows, _) in _copies(task).items() if rows}
        for state in kept:
            holders = [task.task for task in root.tasks if state in {file.state for file in task.files}]
            if len(holders) != 1:
                raise Violation("C", f"epoch {root.epoch}: copies of {state} are stored by {holders}")

    def _listed(self) -> list[BlobRef]:
        """List the files that the job's object names, also those of older checkpoints that it keeps."""
        latest = self._latest
        if latest is None:
            return []
        roots = [*(kept.root for kept in (*latest.retained, *latest.pinned)), *([latest.root] if latest.root else [])]
        files = [file.blob for root in roots for task in self._manifest(root).tasks for file in task.files]
        return [*roots, *files, *([latest.members] if latest.members else [])]

    def left(self) -> list[str]:
        """List the garbage of a job that has ended: files that its object does not need, and no later epoch collects.

        The file that names the owner of staged output is no garbage. It stays as long as the job's directory.
        """
        assert self._latest is not None
        listed = {ROOT_FILE, *(ref.name for ref in self._listed())}
        files = (n for n in self.stores.job.list_for_collection() if n not in listed and not n.endswith(f"/{OWNER}"))
        return [name for name in files if self._latest.finished or _epoch_of(name) <= self._latest.epoch]

    def _manifest(self, ref: BlobRef) -> RootManifest:
        """Return a manifest as it was when it was first read."""
        if ref.name not in self._manifests:
            self._manifests[ref.name] = decode(RootManifest, self._read(ref))
        return self._manifests[ref.name]

    def _read(self, ref: BlobRef) -> bytes:
        try:
            return self.stores.get(ref)
        except PenstockError as error:
            raise Violation("C", f"{ref.name} is listed, but: {error}") from error

    # --- Reports

    def reported(self, ordinal: Ordinal, report: msg.EngineReport) -> None:
        """Check what an engine says."""
        latest = self._latest
        if isinstance(report, msg.EngineStatus) and latest is not None and report.attempt == latest.attempt:
            self._check_visible(report.published, f"worker {ordinal}", ordinal)
        if isinstance(report, msg.Broken) and report.failures and not any(e in report.reason for e in self._job.raises):
            raise Violation("X", f"code of worker {ordinal} has raised: {report.reason}")
        if isinstance(report, msg.TaskAck):
            for state, copy in _copies(report.manifest).items():
                known = self._digests.setdefault((report.attempt, report.term, report.epoch, state), copy)
                if copy != known:
                    raise Violation("C", f"epoch {report.epoch}: a copy of {state} has {copy}, another one {known}")

    def _check_visible(self, epoch: Epoch, who: str, ordinal: Ordinal | None) -> None:
        root = self._root
        if root is None or root.epoch > epoch:
            return
        for task in root.tasks:
            for handle in task.handles if ordinal in {None, task.task.worker} else ():
                if missing := self._outputs.missing(handle, root.epoch):
                    raise Violation("E", f"{who} reports epoch {root.epoch} as published, but {missing} is not visible")

    def appears(self, epoch: Epoch, what: str) -> None:
        """Check output when it becomes visible in a folder or at a server."""
        if epoch > (0 if self._latest is None else self._latest.epoch):
            raise Violation("E", f"{what} of epoch {epoch} is visible before it is committed")

    # --- Senders

    def check_committed(self, split: SplitId, rows: int) -> None:
        """Check that the newest checkpoint has a split up to its end."""
        tasks = () if self._root is None else self._root.tasks
        (state,) = [s for task in tasks for s in task.splits if s.split == split] or (None,)
        if state is None or not state.finished or state.offset != rows:
            raise Violation("C", f"the sender of {split} may go after {rows} rows, but committed is {state}")

    # --- The end

    def finish(self) -> None:
        """Compare the whole output. Read all savepoints, and what the job's object lists, once more."""
        for ref in self._listed():
            self._read(ref)
        for path, index in self.savepoints.items():
            self._check_savepoint(path, index)
        assert self._latest is not None
        if self._latest.stopped and not self.savepoints.keys() & {SAVEPOINTS + name for name in STOPS}:
            raise Violation("C", "the job was stopped with a savepoint, and there is none")
        tasks = () if self._root is None else self._root.tasks
        self._job.ended_at({state.split: state.offset for task in tasks for state in task.splits})
        self._job.check_output({name: self._outputs.rows(name) for name in self._job.outputs})


def _epoch_of(name: BlobName) -> Epoch:
    parts = parse_name(name)
    return Epoch(0) if parts is None else parts.epoch


def _copies(task: TaskManifest) -> dict[str, tuple[int, int]]:
    """Return the number of rows and the digest of each copy that a task has of a side table, by state."""
    return {} if task.copies is ABSENT else {copy.state: (copy.rows, copy.digest) for copy in task.copies}
