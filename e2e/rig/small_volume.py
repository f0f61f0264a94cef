"""A word count whose checkpoints and output are on a small volume, which can be filled."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.rig.wordcount import DATA, Claim, WordCount, make_shared, mounted

SIZE = "96m"
SMALL = "small"
FILLER = "filler"


@dataclass(frozen=True, slots=True)
class OnSmallVolume(WordCount):
    """The job's claim is a tmpfs of one node, so all its workers have to run there."""

    node: str = ""

    def manifest(self, **spec: Any) -> Any:
        """Give the manifest of the word count with the small volume."""
        template = mounted(DATA)
        template["spec"]["volumes"].append({"name": SMALL, "persistentVolumeClaim": {"claimName": SMALL}})
        for container in template["spec"]["containers"]:
            container["volumeMounts"] = [*container["volumeMounts"], {"name": SMALL, "mountPath": f"/{SMALL}"}]
        job = WordCount.manifest(self, podTemplate=template, placement={"nodes": [self.node]}, **spec)
        job["spec"]["job"]["parameters"]["output"] = f"/{SMALL}/{self.output.name}"
        job["spec"]["checkpoint"]["volume"] = {"claimName": SMALL}
        return job

    @property
    def place(self) -> str:
        """Give the path of the small volume on the node."""
        return f"{self.cluster.shared_on_nodes}/{self.folder.name}/{SMALL}"

    @contextmanager
    def volume(self) -> Iterator[None]:
        """Mount the small volume with its claim, as long as the block runs."""
        make_shared(self.folder / SMALL)
        self._on_node("mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0777", "none", self.place)
        try:
            self._on_node("mkdir", "-m", "0777", f"{self.place}/{self.output.name}")
            Claim(self.kubectl, SMALL, self.place).make()
            yield
        finally:
            self._on_node("umount", "--lazy", self.place)

    def fill(self) -> None:
        """Leave no byte free."""
        self._on_node("sh", "-c", f"dd if=/dev/zero of={self.place}/{FILLER} bs=4k 2>/dev/null; test $? != 0")

    def empty(self) -> None:
        """Remove what fills it."""
        self._on_node("rm", f"{self.place}/{FILLER}")

    def fetch_output(self) -> None:
        """Copy the output to where :meth:`check_exact` reads it."""
        self._on_node("cp", "-r", f"{self.place}/{self.output.name}/.", f"{self.place}/../{self.output.name}")

    def _on_node(self, *command: str) -> str:
        return self.cluster.on_node(self.node, *command)
