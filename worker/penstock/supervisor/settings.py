"""What a local cluster is started with."""

from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.base.limits import KEY_GROUPS_DEFAULT
from penstock.base.values import replace
from penstock.contract.latest import Restore
from penstock.contract.schemes import Choices
from penstock.contract.settings import CheckpointSettings
from penstock.protocol.core_context import ControlSettings


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One job on this machine.

    ``directory`` is that of all jobs (``--dir``); the job's own is a folder in it. ``job_file`` is
    the resolved job that every engine reads. ``restore``: what to begin from; None goes on from
    where the job stands. ``control``: times of the control plane;
    what ``checkpoint`` says goes before it. ``workers_max``: no rescale goes beyond it. ``partition``: the schemes of
    steps that have several.
    """

    job: str
    job_file: Path
    directory: Path
    workers: int
    namespace: str = "default"
    restore: Restore | None = None
    checkpoint: CheckpointSettings = CheckpointSettings()
    max_key_groups: int = KEY_GROUPS_DEFAULT
    control: ControlSettings = ControlSettings()
    workers_max: int | None = None
    partition: Choices = ()

    def check_workers(self, workers: int) -> None:
        """Raise ConfigError on a number that leaves a worker without key groups."""
        if not 1 <= workers <= self.max_key_groups:
            raise ConfigError(f"{workers} workers: 1 to {self.max_key_groups} are possible (maxKeyGroups)")
        if self.workers_max is not None and workers > self.workers_max:
            raise ConfigError(f"{workers} workers: this run has {self.workers_max} (--debug)")

    def control_settings(self) -> ControlSettings:
        """Put the job's checkpoint settings into those of the control plane."""
        return replace(
            self.control,
            checkpoint_interval_s=self.checkpoint.interval_s,
            checkpoint_timeout_s=self.checkpoint.timeout_s,
            checkpoint_min_pause_s=self.checkpoint.min_pause_s,
            retain=self.checkpoint.retain,
        )
