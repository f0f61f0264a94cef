"""``python -m bench.fleet``: an operator and 500 running jobs against a real kube-apiserver.

    python -m bench.fleet [--jobs 500] [--interval 10] [--rest 150] [--changes 100] [--out FOLDER]

It creates the jobs, simulates their workers (pods, Lease, ``-latest``, ``-status``), and measures

- at rest: CPU and memory of the operator's process, calls, reconciles and log lines per job;
- in silence: the same while the workers write nothing and nothing changes. This is the cost of
  periodic reconciles and of the process itself. The difference to "at rest" is the cost of events;
- change to effect: from a new ``spec.replicas`` to that of the StatefulSet, and from a change of
  ``-latest`` to the condition of the StreamJob, while all other jobs are at rest.

The binaries are those of ``make e2e-tools TOOLS=api``. With the defaults it takes about 8 minutes on
two cores. The API server and the simulated workers use most of the CPU.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import kopf

from bench import machine, processes, records
from bench.endings import end_with_children
from bench.fleet.api import JOBS, SETS, Api, Object
from bench.fleet.figures import between, read, spread
from bench.fleet.server import operator, served
from bench.fleet.workers import WORKERS, Player
from bench.records import Record
from penstock.contract import pod
from penstock_operator.cluster.client import access_of, login
from tests.integration.kubernetes.operator.conftest import Running

NAMESPACES = 10
AT_ONCE = 32
BEGIN_WITHIN_S = 300.0  # plus two seconds for each job: a slow start must not prevent the measurement
EFFECT_WITHIN_S = 30.0
CHANGES_PER_S = 5.0
SILENCE_S = 75.0  # a job at rest is reconciled every 60 to 72 s, in a large fleet less often
STARTED_S = 75.0  # then what the start of the jobs caused is over
SETTLES_S = 3.0  # time for the last events to arrive
PAPER_JOBS = 5000
TARGETS = (("cpu_share", 0.05), ("memory_mib", 256.0), ("scale_p99_s", 5.0), ("stall_p99_s", 5.0))
Players = list[Player]


def main(arguments: list[str] | None = None) -> int:
    """Measure. The exit code is 0 if every job ran and every change had its effect."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.fleet")
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--interval", type=float, default=10.0, help="of checkpoints, in seconds")
    parser.add_argument("--rest", type=float, default=150.0, help="seconds measured at rest")
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    end_with_children()
    made_on = machine.describe()
    print(f"== {made_on['cpu']}, {made_on['cores']} cores, revision {made_on['revision']}")
    with tempfile.TemporaryDirectory() as folder, served() as server:
        os.environ["KUBECONFIG"] = str(server.kubeconfig)
        access = access_of(login(kopf.OperatorSettings()))
        with operator(server, Path(folder)) as started:
            found, wrong = asyncio.run(_measure(Api(access), started, options))
            print((Path(folder) / "operator.log").read_text()[:3000] if wrong else "", end="")
    for name, value in found.items():
        print(f"   {name:32} {value}")
    for text in wrong:
        print(f"   WRONG: {text}")
    run = {
        "name": f"fleet jobs={options.jobs}", "exact": not wrong, "wrong": wrong,
        "results": found, "scenario": {"jobs": options.jobs, "interval": options.interval},
        "hdr": None,
    }  # fmt: skip
    title, targets = f"{options.jobs} running jobs and one operator", [{"name": n, "at_most": m} for n, m in TARGETS]
    stem, record = records.of_scenario("fleet", title, "bench.fleet", made_on, [run], targets=targets)
    print(f"   kept in {records.write(stem, record, options.out)}")
    return 0 if not wrong else 1


async def _measure(made: Api, started: Running, options: argparse.Namespace) -> tuple[dict[str, float], list[str]]:
    async with made as api:
        events: dict[str, int] = {}
        begun = time.monotonic()
        players = await _make(api, options.jobs, options.interval, events)
        found: dict[str, float] = {"begin_s": round(time.monotonic() - begun, 1)}
        print(f"   {len(players)} jobs began within {found['begin_s']} s", flush=True)
        writers = [asyncio.create_task(p.run(float("inf"))) for p in players]
        wrong = await _until_all_run(api, options.jobs)
        await asyncio.sleep(STARTED_S)
        events.clear()
        first, others, own_s = read(started), processes.Others(), _own_cpu_s()
        await asyncio.sleep(options.rest)
        rest = between(first, read(started), options.jobs)
        wrote, seconds = dict(events), rest["seconds"]
        rest["others_share"] = others.share(_own_cpu_s() - own_s)
        print(f"   at rest: {rest}", flush=True)
        found |= rest
        found |= {f"{what}_writes_per_s": round(n / seconds, 1) for what, n in wrote.items()}
        await _stop(writers)
        await asyncio.sleep(SETTLES_S)
        first = read(started)
        await asyncio.sleep(SILENCE_S)
        silence = between(first, read(started), options.jobs)
        found |= {f"silent_{k}": silence[k] for k in ("cpu_share", "reconciles_per_job_minute")}
        found |= _paper(found, sum(wrote.values()) / seconds, options)
        writers = [asyncio.create_task(p.run(float("inf"))) for p in players]
        await asyncio.sleep(options.interval)
        changed, bad = await _change(api, players, options.changes)
        found |= changed
        wrong += bad
        await _stop(writers)
    return found, wrong


def _own_cpu_s() -> float:
    """Return the CPU time of this benchmark so far: of the server, the operator and the simulated workers."""
    return processes.cpu_s(processes.tree(os.getpid()))


async def _stop(writers: list[asyncio.Task[None]]) -> None:
    for writer in writers:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)


def _paper(found: dict[str, float], events_per_s: float, options: argparse.Namespace) -> Record:
    """Return the CPU time of one event and of one periodic reconcile, and estimates for many jobs.

    A periodic reconcile is charged with the whole silence. It seems expensive if there are few jobs,
    because the process has other work (its Lease, its watches). It is left out if none happened
    during the silence.
    """
    looks_per_s = found["reconciles_per_job_minute"] * options.jobs / 60
    silent_per_s = found["silent_reconciles_per_job_minute"] * options.jobs / 60
    look_s = found["silent_cpu_share"] / max(silent_per_s, 1e-9)
    more = max(0.0, looks_per_s - silent_per_s) * look_s
    event_s = max(0.0, found["cpu_share"] - found["silent_cpu_share"] - more) / events_per_s
    if not silent_per_s:
        return {"event_us": round(event_s * 1e6, 1)}
    share = (events_per_s * event_s + looks_per_s * look_s) / options.jobs * PAPER_JOBS
    return {
        "event_us": round(event_s * 1e6, 1),
        "look_us": round(look_s * 1e6, 1),
        f"cpu_share_of_{PAPER_JOBS}_jobs": round(share, 3),
    }


async def _make(api: Api, jobs: int, interval_s: float, events: dict[str, int]) -> Players:
    spaces = [f"team-{n}" for n in range(min(NAMESPACES, jobs))]
    for name in spaces:
        await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        claim = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        }
        where = f"/api/v1/namespaces/{name}/persistentvolumeclaims"
        await api.create(where, {"metadata": {"name": "shared"}, "spec": claim})
    players = [Player(api, spaces[n % len(spaces)], f"job-{n:04}", interval_s, events) for n in range(jobs)]
    gate = asyncio.Semaphore(AT_ONCE)

    async def begin(player: Player) -> None:
        async with gate:
            await api.create(player.job_path.rpartition("/")[0], _job(player))
            await player.begin()

    async with asyncio.timeout(BEGIN_WITHIN_S + 2 * jobs):
        await asyncio.gather(*(begin(p) for p in players))
    return players


def _job(player: Player) -> Object:
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": player.name},
        "spec": {
            "image": "example/penstock:1",
            "replicas": WORKERS,
            "job": {"entrypoint": "jobs:count"},
            "checkpoint": {
                "interval": f"{player.interval_s:g}s",
                "volume": {"claimName": "shared"},
            },
        },
    }


async def _until_all_run(api: Api, jobs: int) -> list[str]:
    by = time.monotonic() + BEGIN_WITHIN_S + 2 * jobs
    states: list[str] = []
    while time.monotonic() < by:
        items = (await api.get(f"{JOBS}/streamjobs"))["items"]
        states = [item.get("status", {}).get("state", "") for item in items]
        if states.count("Running") == jobs:
            return []
        await asyncio.sleep(2)
    return [f"{jobs - states.count('Running')} of {jobs} jobs do not run"]


async def _change(api: Api, players: Players, count: int) -> tuple[Record, list[str]]:
    """Change jobs one after another; returns how long each kind of effect took."""
    chosen = random.sample(players, min(2 * count, len(players)))
    half = len(chosen) // 2
    scaled, stalled = Effects(api, f"{SETS}/statefulsets"), Effects(api, f"{JOBS}/streamjobs")
    async with scaled, stalled:
        for player in chosen[:half]:
            scaled.expect((player.namespace, pod.workers_name(player.name)), _is_scaled)
            await api.merge(player.job_path, {"spec": {"replicas": WORKERS + 1}})
            await asyncio.sleep(1 / CHANGES_PER_S)
        for player in chosen[half:]:
            stalled.expect((player.namespace, player.name), _is_stalled)
            await player.stall()
            await asyncio.sleep(1 / CHANGES_PER_S)
        missing = [*await scaled.rest(), *await stalled.rest()]
    found = {**spread(scaled.took, "scale"), **spread(stalled.took, "stall")}
    return found, [f"no effect within {EFFECT_WITHIN_S:g} s: {name}" for name in missing]


def _is_scaled(plain: Object) -> bool:
    return bool(plain["spec"]["replicas"] == WORKERS + 1)


def _is_stalled(plain: Object) -> bool:
    conditions = plain.get("status", {}).get("conditions", [])
    return any(c["type"] == "Stalled" and c["status"] == "True" for c in conditions)


Place = tuple[str, str]


class Effects:
    """Watches a collection for expected changes of objects, and records how long each took."""

    def __init__(self, api: Api, path: str) -> None:
        """Watch ``path`` once it is used as a context."""
        self._api, self._path = api, path
        self._waited: dict[Place, tuple[float, object]] = {}
        self.took: list[float] = []

    async def __aenter__(self) -> "Effects":
        listed = await self._api.get(f"{self._path}?limit=1")
        self._task = asyncio.create_task(self._see(listed["metadata"]["resourceVersion"]))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def expect(self, place: Place, holds: object) -> None:
        """Expect of an object that ``holds`` becomes true of it, from now on."""
        self._waited[place] = (time.monotonic(), holds)

    async def rest(self) -> list[str]:
        """Wait for the expected changes. Returns those that did not happen."""
        by = time.monotonic() + EFFECT_WITHIN_S
        while self._waited and time.monotonic() < by:
            await asyncio.sleep(0.1)
        return ["/".join(place) for place in self._waited]

    async def _see(self, version: str) -> None:
        async for event in self._api.watch(self._path, version):
            plain = event["object"]
            place = (plain["metadata"].get("namespace", ""), plain["metadata"].get("name", ""))
            since, holds = self._waited.get(place, (0.0, None))
            if callable(holds) and holds(plain):
                self.took.append(time.monotonic() - since)
                del self._waited[place]


if __name__ == "__main__":
    sys.exit(main())
