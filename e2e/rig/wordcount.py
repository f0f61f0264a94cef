"""The word count of the examples in a cluster: its input, its object, its output, its truth."""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from e2e.rig.cluster import Cluster
from e2e.rig.streamjob import StreamJob

ROOT = Path(__file__).resolve().parents[2]
DATA = "/data"
FILES = 8
WORDS = 3_000
CLAIM = "shared"
START_TIMEOUT_S = 180.0
ORACLE_TIMEOUT_S = 180.0


def line(number: int) -> str:
    """Make a line: a hot word and some of many."""
    return f"hot w{number * 7919 % WORDS} w{number % 97} w{number * 31 % WORDS}"


@dataclass(frozen=True, slots=True)
class WordCount(StreamJob):
    """One StreamJob with folders of its own on the volume that all nodes share."""

    cluster: Cluster
    folder: Path
    lines: int

    @property
    def input(self) -> Path:
        """Give the folder of the lines, as seen here."""
        return self.folder / "in"

    @property
    def output(self) -> Path:
        """Give the folder of published files, as seen here."""
        return self.folder / "out"

    def prepare(self) -> None:
        """Make the input, and the claim that checkpoints and files live on."""
        for each in (self.folder, self.input, self.output):
            each.mkdir()
            each.chmod(0o777)  # the pods' user is not ours
        each_file = self.lines // FILES
        for file in range(FILES):
            numbers = range(file * each_file, (file + 1) * each_file)
            table = pa.table({"line": [line(n) for n in numbers]})
            pq.write_table(table, self.input / f"part-{file}.parquet", row_group_size=1000)
        path = f"{self.cluster.shared_on_nodes}/{self.folder.name}"
        self.kubectl.apply(*claim_of(CLAIM, self._volume_name(), self.kubectl.namespace, path))

    def manifest(self, **spec: Any) -> Any:
        """Give the example's StreamJob with what a cluster adds, and ``spec`` over it."""
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
        """Apply the job, paced to ``rate`` lines/s a file; 0 is as fast as it can."""
        manifest = self.manifest(**spec)
        manifest["spec"]["job"]["parameters"]["rate"] = rate
        self.kubectl.apply(manifest, manager="kubectl", force=True)

    def start(self, rate: int, **spec: Any) -> None:
        """Apply the job; returns when it is Ready."""
        self.apply(rate, **spec)
        self.until("Ready", START_TIMEOUT_S)

    def finish(self, timeout_s: float, **spec: Any) -> None:
        """Let it run without pause to the end of its input, on as many workers as now."""
        self.apply(**{"replicas": self.job()["spec"]["replicas"], **spec})
        self.until_finished(timeout_s)

    def check_exact(self, before: Sequence[Path] = ()) -> None:
        """Compare the output, after files of ``before``, with the input.

        Every word has the counts 1..n, in order, where the order is that of files, then rows; and
        there is nothing else.
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
        """Have Spark compute what the output must be, and compare; gives what it printed."""
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

    def remove(self) -> None:
        """Take away what namespaces do not take with them."""
        self.kubectl.attempt("delete", "persistentvolume", self._volume_name(), "--wait=false")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _volume_name(self) -> str:
        return f"shared-{self.kubectl.namespace}"


def mounted(path: str) -> Any:
    """Give the ``podTemplate`` that mounts the whole claim into both containers."""
    mounts = [{"name": "data", "mountPath": path}]
    return {
        "spec": {
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}],
            "containers": [{"name": name, "volumeMounts": mounts} for name in ("keeper", "engine")],
        }
    }


def claim_of(name: str, volume: str, namespace: str, path: str) -> list[Any]:
    """Give a claim and the volume behind it: a folder that every node has."""
    modes, room = ["ReadWriteMany"], {"storage": "1Gi"}
    made = {"accessModes": modes, "storageClassName": "", "capacity": room}
    asked = {"accessModes": modes, "storageClassName": "", "resources": {"requests": room}}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **made,
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": path, "type": "Directory"},
                "claimRef": {"name": name, "namespace": namespace},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {**asked, "volumeName": volume},
        },
    ]
