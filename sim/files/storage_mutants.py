"""Mutants of the code that keeps files: one rule is taken out, and a run of a scenario has to notice."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from sim.files.call_hooks import CallFault
from sim.files.savepoint_scenario import Savepoints
from sim.files.storage_runs import MakeScenario, every_call
from sim.files.storage_scenarios import Checkpoints, StagedOutput

BLOBS = "penstock.storage.blobs"
SINK = "penstock.connectors.file_sink"
FOLDER = "penstock.connectors.file_output"
COPIES = "penstock.keeper.savepoint_copies"
FOLDERS = "penstock.file_system"


@dataclass(frozen=True, slots=True)
class StorageMutant:
    """``old`` occurs once in the module. ``fault``, put at every call of the scenario, shows the harm."""

    name: str
    module: str
    old: str
    new: str
    scenario: MakeScenario
    fault: CallFault

    def mutated(self) -> tuple[str, str]:
        """Return the source of the module, and the source with the mutant. Raises AssertionError."""
        file = import_module(self.module).__file__
        assert file is not None
        source = Path(file).read_text(encoding="utf-8")
        assert source.count(self.old) == 1, f"{self.module} has {source.count(self.old)} times {self.old!r}"
        return source, source.replace(self.old, self.new)

    def noticed(self) -> str:
        """Run the scenario, in a process in which the module is changed; return what was noticed."""
        try:
            every_call(self.scenario, self.fault)
        except AssertionError as error:
            return str(error)
        return ""


MUTANTS = (
    StorageMutant(
        "name of a checkpoint file is not synced",
        BLOBS,
        "name, content)\n                    self.files.fsync(folder)\n",
        "name, content)\n",
        Checkpoints,
        CallFault.POWER_AFTER,
    ),
    StorageMutant(
        "content of a checkpoint file is not synced",
        BLOBS,
        "            self.files.fsync(file)\n        return BlobRef",
        "        return BlobRef",
        Checkpoints,
        CallFault.POWER_AFTER,
    ),
    StorageMutant(
        "folder of checkpoint files is not synced",
        BLOBS,
        "self.files.fsync(parent)",
        "pass",
        Checkpoints,
        CallFault.POWER_AFTER,
    ),
    StorageMutant(
        "folders above the first file are not synced",
        FOLDERS,
        "sync_names(files, parent)",
        "pass",
        Checkpoints,
        CallFault.POWER_AFTER,
    ),
    StorageMutant(
        "name of an index is not synced",
        BLOBS,
        "looks for it later\n                self.files.fsync(folder)\n",
        "looks for it later\n",
        Savepoints,
        CallFault.POWER_AFTER,
    ),
    StorageMutant(
        "index that another leader linked is not synced",
        COPIES,
        "copies.sync_name(INDEX)",
        "pass",
        Savepoints,
        CallFault.ENDED_AFTER,
    ),
    StorageMutant(
        "tries of a leader that died stay beside the savepoint",
        COPIES,
        "_clear_others(copies, target)  # another was quicker",
        "pass  # another was quicker",
        Savepoints,
        CallFault.ENDED_AFTER,
    ),
    StorageMutant(
        "files of the checkpoint are not copied",
        COPIES,
        "copies.copy(blob, store, inside(action.folder, blob).name)",
        "pass",
        Savepoints,
        CallFault.ENDED_AFTER,
    ),
    StorageMutant(
        "content of a staged file is not synced",
        FOLDER,
        "hashing.end()\n            files.fsync(file)\n",
        "hashing.end()\n",
        StagedOutput,
        CallFault.POWER_AFTER,
    ),
    StorageMutant(
        "name of a staged file is not synced",
        SINK,
        "sync_folder(self._files, staged[0].path.parent)",
        "pass",
        StagedOutput,
        CallFault.POWER_AFTER,
    ),
    StorageMutant(
        "output folder is not synced",
        SINK,
        "sync_folder(self._files, self._output.path)",
        "pass",
        StagedOutput,
        CallFault.POWER_AFTER,
    ),
    StorageMutant(
        "content of the owner's file is not synced",
        FOLDER,
        "self.files.fsync(file)",
        "pass",
        StagedOutput,
        CallFault.POWER_AFTER,
    ),
    StorageMutant(
        "owner's files of dead processes stay",
        SINK,
        "self._output.sweep()",
        "pass",
        StagedOutput,
        CallFault.ENDED_AFTER,
    ),
    StorageMutant(
        "rows of a cut that failed are dropped",
        SINK,
        "self.returned = self._parts",
        "self.returned = ()",
        StagedOutput,
        CallFault.IO_ERROR,
    ),
    StorageMutant(
        "staged files are not swept",
        SINK,
        "int(number) < attempt:",
        "int(number) < 0:",
        StagedOutput,
        CallFault.ENDED_AFTER,
    ),
)
