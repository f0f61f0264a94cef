"""The rules that all copiers of savepoints share: which files to copy, and their names."""

from penstock.base.values import replace
from penstock.contract.ids import BlobName, Incarnation, JobUid, blob_name
from penstock.contract.manifest import BlobRef, Origin, RootManifest, StateFile, TaskManifest
from penstock.protocol.keeper_core_messages import ImportSnapshot


def files_of(manifest: RootManifest) -> tuple[BlobRef, ...]:
    """List the files of a checkpoint beside its manifest, each once, in a fixed order."""
    found = {file.blob.name: file.blob for task in manifest.tasks for file in task.files}
    return tuple(found.values())


def inside(folder: str, blob: BlobRef) -> BlobRef:
    """Return the place of a savepoint's file relative to its index. Format 1 has no ``folder``."""
    return replace(blob, name=BlobName(f"{folder}/{blob.name}")) if folder else blob


def import_name(action: ImportSnapshot, number: int, suffix: str) -> BlobName:
    """Return the name of a file of one try of an import. No other try has this name."""
    life = Incarnation(f"{action.life}.{action.token}")
    return blob_name(action.term, action.epoch, life, number, suffix)


def suffix_of(name: BlobName) -> str:
    """Return the part of a stored file's name that follows its number."""
    return name.rsplit("-", 1)[-1].lstrip("0123456789")


def adopted(
    manifest: RootManifest, renamed: dict[BlobName, BlobRef], uid: JobUid, action: ImportSnapshot
) -> RootManifest:
    """Return a savepoint's manifest as the job ``uid`` imports it; ``renamed`` are its copies."""
    tasks = tuple(_renamed(task, renamed, action) for task in manifest.tasks)
    origin = Origin(manifest.job_uid, manifest.epoch)
    mine = replace(manifest, job_uid=uid, epoch=action.epoch, term=action.term, origin=origin)
    return replace(mine, tasks=tasks)


def _renamed(task: TaskManifest, renamed: dict[BlobName, BlobRef], action: ImportSnapshot) -> TaskManifest:
    def adopt(file: StateFile) -> StateFile:
        return replace(file, blob=renamed[file.blob.name], epoch=action.epoch)

    # Output that the savepoint's job prepared is published by that job only.
    return replace(task, files=tuple(adopt(file) for file in task.files), handles=())
