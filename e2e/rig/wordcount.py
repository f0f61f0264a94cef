"""The word count of the examples in a cluster: its input, object, output and expected output."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from e2e.rig.cluster import Cluster
from e2e.rig.reading import CLAIMS, VOLUMES, read
from e2e.rig.streamjob import StreamJob
from e2e.rig.waiting import wait_for
from penstock.base.values import replace
from tests.integration.kubernetes.kubectl import Kubectl

ROOT = Path(__file__).resolve().parents[2]
DATA = "/data"
WORDS = 3_000
CLAIM = "shared"
BIND_TIMEOUT_S = 60.0
START_TIMEOUT_S = 180.0
ORACLE_TIMEOUT_S = 180.0


def line(number: int) -> str:
    """Make a line: a frequent word and some of many rare ones."""
    return f"hot w{number * 7919 % WORDS} w{number % 97} w{number * 31 % WORDS}"


@dataclass(frozen=True, slots=True)
class WordCount(StreamJob):
    """One StreamJob with its own folders on the volume that all nodes share."""

    cluster: Cluster
    folder: Path
    lines: int
    files: int = 8

    @property
    def input(self) -> Path:
        """Give the local path of the input folder."""
        return self.folder / "in"

    @property
    def output(self) -> Path:
        """Give the local path of the job's output folder."""
        return self.folder / f"out-{self.name}"

    def prepare(self) -> None:
        """Make the input, and the claim for checkpoints and files."""
        for each in (self.folder, self.input, self.output):
            make_shared(each)
        each_file = self.lines // self.files
        for file in range(self.files):
            numbers = range(file * each_file, (file + 1) * each_file)
            table = pa.table({"line": [line(n) for n in numbers]})
            pq.write_table(table, self.input / f"part-{file}.parquet", row_group_size=1000)
        path = f"{self.cluster.shared_on_nodes}/{self.folder.name}"
        Claim(self.kubectl, CLAIM, path).make()

    def another(self, name: str) -> "WordCount":
        """Give a job of another name with the same input and its own output."""
        other = replace(self, name=name)
        make_shared(other.output)
        return other

    def manifest(self, **spec: Any) -> Any:
        """Give the StreamJob of the example with the additions for a cluster, and ``spec``."""
        job = yaml.safe_load((ROOT / "examples" / "wordcount.yaml").read_text())
        job["metadata"]["name"] = self.name
        parameters = {"input": f"{DATA}/in", "output": f"{DATA}/{self.output.name}"}
        job["spec"]["job"]["parameters"].update(parameters)
        job["spec"]["checkpoint"]["volume"] = {"claimName": CLAIM}
        job["spec"] |= {
            "image": self.cluster.images.worker,
            "imagePullPolicy": "Never",
            "podTemplate": mounted(DATA),
            **spec,
        }
        return job

    def apply(self, rate: int = 0, **spec: Any) -> None:
        """Apply the job, limited to ``rate`` lines/s per file; 0 means no limit."""
        manifest = self.manifest(**spec)
        manifest["spec"]["job"]["parameters"]["rate"] = rate
        self.kubectl.apply(manifest, manager="kubectl", force=True)

    def start(self, rate: int, **spec: Any) -> None:
        """Apply the job. Returns when it is Ready."""
        self.apply(rate, **spec)
        self.until("Ready", START_TIMEOUT_S)

    def finish(self, timeout_s: float, **spec: Any) -> None:
        """Let it run without a limit to the end of its input, with the present workers."""
        self.apply(**{"replicas": self.job()["spec"]["replicas"], **spec})
        self.until_finished(timeout_s)

    def check_exact(self, before: Sequence[Path] = ()) -> None:
        """Compare the output, after files of ``before``, with the input.

        Every word has the counts 1..n, in the order of files, then rows. There is nothing else.
        """
        found: Counter[str] = Counter()
        for file in (*sorted(before), *sorted(self.output.glob("*.parquet"))):
            table = pq.read_table(file, columns=["word", "count"])
            for word, count in zip(*(c.to_pylist() for c in table.columns), strict=True):
                found[word] += 1
                assert count == found[word], f"{file.name}: {word!r} has {count}, not {found[word]}"
        wanted = Counter(w for n in range(self.lines) for w in line(n).split(" "))
        assert found == wanted

    def check_with_spark(self) -> str:
        """Let Spark compute the expected output and compare. Gives what Spark printed."""
        command = [sys.executable, "-m", "penstock_spark", "oracle"]
        folders = ["--input", str(self.input), "--output", str(self.output)]
        done = subprocess.run(
            [*command, *folders],
            capture_output=True,
            text=True,
            check=False,
            timeout=ORACLE_TIMEOUT_S,
        )
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout


def mounted(path: str) -> Any:
    """Give the ``podTemplate`` that mounts the whole claim into both containers."""
    mounts = [{"name": "data", "mountPath": path}]
    return {
        "spec": {
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}],
            "containers": [{"name": name, "volumeMounts": mounts} for name in ("keeper", "engine")],
        }
    }


def make_shared(folder: Path) -> None:
    """Make a folder that pods can write to, although they run as another user."""
    folder.mkdir()
    folder.chmod(0o777)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim and its volume: the folder ``path``, which every node has."""

    kubectl: Kubectl
    name: str
    path: str

    def make(self) -> None:
        """Create both. Returns when they are bound to each other.

        The controller binds them at once if it knows the volume before the claim and no write comes
        between. Otherwise it tries again after up to 15 s, or when the claim changes.
        """
        self.kubectl.apply(self._volume())
        wait_for(f"{self.volume} Available", self._is_available, BIND_TIMEOUT_S)
        self.kubectl.apply(self._claim())
        wait_for(f"{self.name} Bound", self._is_bound, BIND_TIMEOUT_S, every_s=0.5)

    @property
    def volume(self) -> str:
        """Give the volume's name."""
        return f"{self.name}-{self.kubectl.namespace}"

    def _is_available(self) -> bool:
        return phase_of(read(self.kubectl, VOLUMES, self.volume)) == "Available"

    def _is_bound(self) -> bool:
        if phase_of(read(self.kubectl, CLAIMS, self.name)) == "Bound":
            return True
        looked = f"penstock.dev/looked={time.monotonic()}"
        self.kubectl("annotate", "--overwrite", "persistentvolumeclaim", self.name, looked)
        return False

    def _volume(self) -> Any:
        spec = {
            **SHAPE,
            "capacity": ROOM,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": self.path, "type": "Directory"},
            "claimRef": {"name": self.name, "namespace": self.kubectl.namespace},
        }
        metadata = {"name": self.volume, "labels": {OF_NAMESPACE: self.kubectl.namespace}}
        head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata}
        return {**head, "spec": spec}

    def _claim(self) -> Any:
        spec = {**SHAPE, "resources": {"requests": ROOM}, "volumeName": self.volume}
        metadata = {"name": self.name}
        head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        return {**head, "spec": spec}


OF_NAMESPACE = "penstock.dev/e2e"  # volumes, which are not deleted with a namespace
ROOM = {"storage": "1Gi"}
SHAPE: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}


def phase_of(found: Any) -> str:
    """Give the phase of a volume or a claim; empty before its controller has handled it."""
    return str(found.get("status", {}).get("phase", ""))


def remove_volumes(kubectl: Kubectl) -> None:
    """Delete the volumes of the namespace's claims."""
    label = f"{OF_NAMESPACE}={kubectl.namespace}"
    kubectl.attempt("delete", "persistentvolumes", "--wait=false", f"--selector={label}")
