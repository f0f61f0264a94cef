"""A StreamJob in a cluster: what a person does with kubectl, its status and its pods."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e.rig.reading import CONFIG_MAPS, PODS, STREAM_JOBS, listed, read
from e2e.rig.waiting import wait_for
from penstock.contract import pod
from penstock.contract.latest import Latest, decode_latest
from tests.integration.kubernetes.kubectl import Kubectl


@dataclass(frozen=True, slots=True)
class StreamJob:
    """The StreamJob ``name`` in the namespace of ``kubectl``. It need not exist yet."""

    kubectl: Kubectl
    name: str

    # --- What a person does -----------------------------------------------------------------------

    def patch(self, **spec: Any) -> None:
        """Change fields of the spec."""
        text = json.dumps({"spec": spec})
        self.kubectl("patch", "streamjob", self.name, "--type=merge", "-p", text)

    def scale(self, workers: int, timeout_s: float) -> None:
        """Scale with kubectl. Returns when this number of workers runs."""
        self.kubectl("scale", "streamjob", self.name, f"--replicas={workers}")
        wait_for(f"{workers} workers at work", lambda: self.runs_on(workers), timeout_s, self.say)

    def delete(self, timeout_s: float) -> None:
        """Delete it. Returns when it is gone."""
        self.kubectl("delete", "streamjob", self.name, f"--timeout={timeout_s:g}s")

    # --- Its status -------------------------------------------------------------------------------

    def job(self) -> Any:
        """Give the StreamJob object."""
        return read(self.kubectl, STREAM_JOBS, self.name)

    def status(self) -> Any:
        """Give its status; empty before the first reconcile."""
        return self.job().get("status", {})

    def state(self) -> str:
        """Give the state in one word; empty before the first reconcile."""
        return str(self.status().get("state", ""))

    def conditions(self) -> list[Any]:
        """Give the conditions."""
        found: list[Any] = self.status().get("conditions", [])
        return found

    def is_so(self, condition: str, reason: str = "") -> bool:
        """Say whether the condition is true for the newest spec, with this reason if one is given."""
        job = self.job()
        return any(
            each["type"] == condition
            and each["status"] == "True"
            and reason in {"", each["reason"]}
            and each["observedGeneration"] == job["metadata"]["generation"]
            for each in job.get("status", {}).get("conditions", [])
        )

    def until(self, condition: str, timeout_s: float, reason: str = "") -> None:
        """Wait until a condition is true."""
        what = f"{self.name} {condition} {reason}".rstrip()
        wait_for(what, lambda: self.is_so(condition, reason), timeout_s, self.say)

    def until_state(self, state: str, timeout_s: float) -> None:
        """Wait for a state of the newest spec."""
        wait_for(f"{self.name} {state}", lambda: self._is_in(state), timeout_s, self.say)

    def until_finished(self, timeout_s: float) -> None:
        """Wait until a job with finite input has finished."""
        self.until_state("Finished", timeout_s)

    def shown_epoch(self) -> int:
        """Give the newest committed epoch in the status, or 0. It is written every few seconds."""
        done = self.status().get("checkpoint", {}).get("lastCompleted", {})
        return int(done.get("epoch", 0))

    def latest(self) -> Latest:
        """Read -latest, which the workers write, and not the operator's status."""
        found = read(self.kubectl, CONFIG_MAPS, pod.latest_name(self.name))
        return decode_latest(found["data"][pod.RECORD].encode())

    def epoch(self) -> int:
        """Give the newest committed epoch; 0 when there is none."""
        return int(self.latest().epoch)

    def commits(self, more: int, timeout_s: float) -> None:
        """Wait for this number of new epochs. The API server may be starting."""
        wanted = int(wait_for("a record", self.latest, timeout_s).epoch) + more
        wait_for(f"epoch {wanted}", lambda: self.epoch() >= wanted, timeout_s, self.say)

    def leader(self, timeout_s: float = 60.0) -> str:
        """Wait for a leader, and give its pod."""
        return str(wait_for("leader", lambda: self.status().get("leader"), timeout_s, self.say))

    def say(self) -> str:
        """Give the status in one line, for error texts."""
        status = self.status()
        conditions = {
            f"{each['type']}={each['status']}": f"{each['reason']}: {each['message']}"
            for each in status.get("conditions", [])
        }
        shown = {k: status.get(k) for k in ("state", "readyReplicas", "leader", "term", "attempt")}
        return f"{shown} epoch {status.get('checkpoint')} {conditions}"

    # --- Its pods ---------------------------------------------------------------------------------

    def workers(self) -> dict[str, Any]:
        """Give the worker pods by name."""
        selector = f"penstock.dev/job={self.name},penstock.dev/component=worker"
        found = listed(self.kubectl, PODS, labelSelector=selector)
        return {each["metadata"]["name"]: each for each in found}

    def runs_on(self, workers: int) -> bool:
        """Say whether exactly this number of workers runs, and no other pod is left."""
        ready = self.is_so("Ready") and self.status().get("readyReplicas") == workers
        return bool(ready and len(self.workers()) == workers)

    def lives(self) -> dict[str, tuple[str, int]]:
        """Give what a rescale must not change: each pod's UID and its containers' restarts."""
        return {
            name: (
                each["metadata"]["uid"],
                sum(c["restartCount"] for c in each["status"].get("containerStatuses", [])),
            )
            for name, each in self.workers().items()
        }

    def logged(self, container: str, words: str) -> list[dict[str, str]]:
        """Give the log lines of all workers that contain these words, as key=value."""
        found = []
        for name in self.workers():
            done = self.kubectl.attempt("logs", name, "-c", container)
            lines = (line for line in done.stdout.splitlines() if words in line)
            found += [dict(_pairs(line), pod=name) for line in lines]
        return found

    def _is_in(self, state: str) -> bool:
        job = self.job()
        status: Mapping[str, Any] = job.get("status", {})
        newest = status.get("observedGeneration") == job["metadata"]["generation"]
        return newest and status.get("state") == state


def _pairs(line: str) -> list[tuple[str, str]]:
    parts = (word.partition("=") for word in line.replace('"', " ").split())
    return [(key, value) for key, equals, value in parts if equals]
