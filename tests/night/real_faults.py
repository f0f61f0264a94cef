"""One job of real processes under ten faults in an order of its seed; its output is checked row by row.

    python -m tests.night.real_faults --seed 3

Five workers are killed, one leader is killed, one leader is stopped for longer than its lease, and
the job is rescaled three times. A line of JSON tells how long each took: for a kill, from the signal
until all workers run in a newer attempt and a further epoch of it is visible.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from penstock.base.limits import LOCAL_LEASE_DURATION_S
from tests.integration.cluster_rig import Cluster, running, send
from tests.night.recoveries import Recoveries, marked

FAULTS = ["worker killed"] * 5 + ["leader killed", "leader stopped"] + ["rescaled"] * 3
SECONDS = 900  # of paced input: more than the faults take on a slow machine
STOPPED_FOR_S = LOCAL_LEASE_DURATION_S + 120


def fault(cluster: Cluster, what: str, draw: random.Random) -> float:
    """Do one thing to the job and wait until it is well. Return the seconds that it took."""
    begun = time.monotonic()
    match what:
        case "worker killed" | "leader killed":
            before = cluster.well()
            victim = cluster.victim(leader=what == "leader killed")
            begun = time.monotonic()
            send(signal.SIGKILL, victim.keeper_pid, victim.engine_pid)
            cluster.recovered(before)
        case "leader stopped":
            _stop_the_leader(cluster)
        case _:
            now = len(cluster.well().workers)
            wanted = draw.choice([n for n in (2, 3, 4) if n != now])
            begun = time.monotonic()
            cluster.rescale(wanted)
    return time.monotonic() - begun


def _stop_the_leader(cluster: Cluster) -> None:
    before = cluster.well()
    old = cluster.victim(leader=True)
    send(signal.SIGSTOP, old.keeper_pid, old.engine_pid)
    try:
        cluster.job.until(
            "another leader",
            lambda s: s.term > before.term and any(w.leader and w.ordinal != old.ordinal for w in s.workers),
            STOPPED_FOR_S,
        )
    finally:
        send(signal.SIGCONT, old.keeper_pid, old.engine_pid)
    cluster.job.epochs(2)
    cluster.well()


def run(seed: int, folder: Path, took: Recoveries) -> None:
    """Run one job, and tell ``took`` how long each fault took. Raises if it is not exact, or does not recover."""
    draw = random.Random(seed)
    faults = draw.sample(FAULTS, len(FAULTS))
    with running(folder, seconds=SECONDS) as cluster:
        cluster.job.epochs(2)
        for what in faults:
            took.setdefault(what, []).append(fault(cluster, what, draw))
        cluster.finish()
        cluster.check_exact()


def main() -> int:
    """Run the job of one seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.night.real_faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    with tempfile.TemporaryDirectory(prefix="night-") as folder:
        took: Recoveries = {}
        try:
            run(seed, Path(folder), took)
        finally:
            print(marked(took))
    return 0


if __name__ == "__main__":
    sys.exit(main())
