"""The word count of the examples in a cluster: its input, its object, its output, its truth."""

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from e2e.rig.cluster import Cluster
from e2e.rig.waiting import wait_for
from tests.integration.kubernetes.kubectl import Kubectl

ROOT = Path(__file__).resolve().parents[2]
DATA = "/data"
FILES = 8
WORDS = 3_000
CLAIM = "shared"
START_TIMEOUT_S = 180.0


def line(number: int) -> str:
    """Make a line: a hot word and some of many."""
    return f"hot w{number * 7919 % WORDS} w{number % 97} w{number * 31 % WORDS}"


@dataclass(frozen=True, slots=True)
class WordCount:
    """One StreamJob with folders of its own on the volume that all nodes share."""

    cluster: Cluster
    kubectl: Kubectl
    folder: Path
    lines: int

    @property
    def output(self) -> Path:
        """Give the folder of published files, as seen here."""
        return self.folder / "out"

    def prepare(self) -> None:
        """Make the input, and the claim that checkpoints and files live on."""
        for each in (self.folder, self.folder / "in", self.output):
            each.mkdir()
            each.chmod(0o777)  # the pods' user is not ours
        each_file = self.lines // FILES
        for file in range(FILES):
            numbers = range(file * each_file, (file + 1) * each_file)
            table = pa.table({"line": [line(n) for n in numbers]})
            pq.write_table(table, self.folder / "in" / f"part-{file}.parquet", row_group_size=1000)
        self.kubectl.apply(*self._volume())

    def manifest(self, **spec: Any) -> Any:
        """Give the example's StreamJob with what a cluster adds, and ``spec`` over it."""
        job = yaml.safe_load((ROOT / "examples" / "wordcount.yaml").read_text())
        parameters = {"input": f"{DATA}/in", "output": f"{DATA}/out"}
        job["spec"]["job"]["parameters"].update(parameters)
        job["spec"]["checkpoint"]["volume"] = {"claimName": CLAIM}
        mounts = [{"name": "data", "mountPath": DATA}]
        job["spec"] |= {
            "image": self.cluster.worker_image,
            "imagePullPolicy": "Never",
            "podTemplate": {
                "spec": {
                    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}],
                    "containers": [
                        {"name": name, "volumeMounts": mounts} for name in ("keeper", "engine")
                    ],
                }
            },
            **spec,
        }
        return job

    def start(self, rate: int, **spec: Any) -> None:
        """Apply the job, paced to ``rate`` lines/s a file; returns when it is Ready."""
        manifest = self.manifest(**spec)
        manifest["spec"]["job"]["parameters"]["rate"] = rate
        self.kubectl.apply(manifest, manager="kubectl")
        self.until("Ready", START_TIMEOUT_S)

    def job(self) -> Any:
        """Give the StreamJob as it is."""
        return self.kubectl.get("streamjob", "wordcount")

    def state(self) -> str:
        """Give the state in one word; empty before the operator has looked."""
        return str(self.job().get("status", {}).get("state", ""))

    def conditions(self) -> list[Any]:
        """Give the conditions."""
        found: list[Any] = self.job().get("status", {}).get("conditions", [])
        return found

    def is_so(self, condition: str) -> bool:
        """Whether the condition is true of the newest spec."""
        job = self.job()
        return any(
            each["type"] == condition
            and each["status"] == "True"
            and each["observedGeneration"] == job["metadata"]["generation"]
            for each in job.get("status", {}).get("conditions", [])
        )

    def until(self, condition: str, timeout_s: float) -> None:
        """Wait until a condition is true."""
        wait_for(f"condition {condition}", lambda: self.is_so(condition), timeout_s)

    def epoch(self) -> int:
        """Give the newest committed epoch of the status; 0 when there is none."""
        status = self.job().get("status", {})
        return int(status.get("checkpoint", {}).get("lastCompleted", {}).get("epoch", 0))

    def commits(self, more: int, timeout_s: float) -> None:
        """Wait for so many epochs beyond the newest."""
        wanted = self.epoch() + more
        wait_for(f"epoch {wanted}", lambda: self.epoch() >= wanted, timeout_s)

    def workers(self) -> dict[str, Any]:
        """Give the worker pods by name."""
        pods = self.kubectl.items(
            "pods", "penstock.dev/job=wordcount,penstock.dev/component=worker"
        )
        return {pod["metadata"]["name"]: pod for pod in pods}

    def lives(self) -> dict[str, tuple[str, int]]:
        """Give what may not change in a rescale: each pod's UID and its containers' restarts."""
        return {
            name: (
                pod["metadata"]["uid"],
                sum(c["restartCount"] for c in pod["status"].get("containerStatuses", [])),
            )
            for name, pod in self.workers().items()
        }

    def scale(self, workers: int, timeout_s: float) -> None:
        """Scale as a person does; returns when so many workers work."""
        self.kubectl("scale", "streamjob", "wordcount", f"--replicas={workers}")
        wait_for(
            f"{workers} workers at work",
            lambda: self.is_so("Ready") and self.job()["status"].get("readyReplicas") == workers
            and len(self.workers()) == workers,
            timeout_s,
        )  # fmt: skip

    def finish(self, timeout_s: float) -> None:
        """Let it run without pause to the end of its input."""
        manifest = self.manifest()
        manifest["spec"]["job"]["parameters"]["rate"] = 0
        replicas = self.job()["spec"]["replicas"]
        manifest["spec"]["replicas"] = replicas
        self.kubectl.apply(manifest, manager="kubectl", force=True)
        self.until_finished(timeout_s)

    def until_finished(self, timeout_s: float) -> None:
        """Wait for the end of a job whose input ends."""
        wait_for("state Finished", lambda: self.state() == "Finished", timeout_s)

    def check_exact(self) -> None:
        """Compare the output with the input: every word 1..n, in order, and nothing else."""
        found: Counter[str] = Counter()
        for file in sorted(self.output.glob("*.parquet")):
            table = pq.read_table(file, columns=["word", "count"])
            for word, count in zip(*(c.to_pylist() for c in table.columns), strict=True):
                found[word] += 1
                assert count == found[word], f"{file.name}: {word!r} has {count}, not {found[word]}"
        wanted = Counter(w for n in range(self.lines) for w in line(n).split(" "))
        assert found == wanted

    def remove(self) -> None:
        """Take away what namespaces do not take with them."""
        self.kubectl.attempt("delete", "persistentvolume", self._volume_name(), "--wait=false")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _volume_name(self) -> str:
        return f"shared-{self.kubectl.namespace}"

    def _volume(self) -> list[Any]:
        shape = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": self._volume_name(),
            "resources": {"requests": {"storage": "1Gi"}},
        }
        path = f"{self.cluster.shared_on_nodes}/{self.folder.name}"
        volume = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": path, "type": "Directory"},
            "claimRef": {"name": CLAIM, "namespace": self.kubectl.namespace},
        }
        return [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": self._volume_name()},
                "spec": volume,
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": CLAIM},
                "spec": shape,
            },
        ]
