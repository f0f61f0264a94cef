"""The simulated cluster: processes and stores on one kernel, faults, and the checker.

A run has two phases. In the safety phase faults happen. In the liveness phase nothing fails any more,
and the job must end within a bound. Then everything is compared and counted.
"""

from penstock.base.values import replace
from penstock.contract.ids import JobUid, Ordinal, SplitId
from sim.checks.invariant_checker import InvariantChecker
from sim.cluster.engine import EngineNode
from sim.cluster.fault_injector import FaultInjector
from sim.cluster.keeper import LATEST
from sim.cluster.services import Service
from sim.control_plane import ClusterParts, ControlPlane
from sim.kernel.faults import Faults
from sim.kernel.kernel import SECOND, SimKernel, Violation
from sim.kernel.nemesis import draw_faults, draw_moments
from sim.kernel.network import Network
from sim.scenario import Scenario
from sim.shrinking import RunParts
from sim.workload import EVENT_TIMED, OUT_OF_ORDER_US, make_job, make_plan

EVENTS_MAX = 400_000


class World(ControlPlane):
    """One run of one scenario under one seed."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        faults: Faults | None = None,
        only: RunParts | None = None,
    ) -> None:
        """Begin a run. ``only``: of all faults and requests of the run, these happen, and no others."""
        kernel = SimKernel(seed, self.died)
        streams = kernel.streams
        self.job = make_job(scenario.job, scenario.shape(streams.workload), streams.workload)
        self.jobs = 1
        host_of: dict[str, str] = {"super": "super", "store": "store"}
        network = Network(kernel, host_of)
        network.slow_chance = scenario.slow_chance
        codec = streams.workload.random() < scenario.codec_share
        service = Service(kernel, streams.faults, codec=codec)
        parts = ClusterParts(kernel, network, service, faults or Faults(streams.faults, scenario.rates))
        super().__init__(scenario, parts, JobUid("job"), host_of)
        self.service.applied_when_unknown = self.faults.single is not None
        self.judge = InvariantChecker(self.kernel, self.job, self.service.disk)
        self.service.watcher = self.judge
        self.monitor = self.judge.monitor
        self.monitor.barrier_max_us = scenario.barrier_max_us
        self.monitor.call_max_us = scenario.call_max_us
        self.sizes = scenario.sizes(streams.workload)
        self.idle_after_s = scenario.idle_after_s
        self.poison = scenario.poison
        self.disorder_us: int | None = OUT_OF_ORDER_US if scenario.job in EVENT_TIMED else None
        self.pace_us = scenario.pace(streams.workload)
        self.moments = scenario.moments
        self.plan = scenario.happenings(streams.workload)
        if faults is None and scenario.profile is not None:
            self.plan += draw_faults(streams.faults, scenario.profile, scenario.workers)
            self.moments += draw_moments(streams.faults, scenario.profile, scenario.workers)
        if only is not None:
            self.faults.kept = only.faults
            self.plan = tuple(event for at, event in enumerate(self.plan) if at in only.plan)
            self.moments = tuple(moment for at, moment in enumerate(self.moments) if at in only.moments)
        self.fault_injector = FaultInjector(self)
        self.begin(self.fault_injector)

    def parts(self) -> RunParts:
        """Return the faults and requests of this run, which is over."""
        plan, moments = range(len(self.plan)), range(len(self.moments))
        return RunParts(frozenset(range(self.faults.drawn)), frozenset(plan), frozenset(moments))

    def new_engine(self, ordinal: Ordinal, name: str) -> EngineNode:
        """Return a new life of a worker's engine."""
        return EngineNode(self, ordinal, name)

    # --- A run

    def run(self) -> None:
        """Run both phases and compare. Raises Violation."""
        safety = self.scenario.safety_us
        self._advance(safety)
        self._check_attempts()
        self.faults.quiet = True
        self.fault_injector.calm()
        if not self._advance(safety + self.scenario.liveness_us, until_done=True):
            seconds = self.scenario.liveness_us // SECOND
            raise Violation("L", f"no end {seconds} s after the last fault")
        self._compare()

    def _check_attempts(self) -> None:
        least, most = self.scenario.attempts or (0, self.latest().attempt)
        if not least <= self.latest().attempt <= most:
            raise Violation("L", f"{self.latest().attempt} attempts, not {least} to {most}")

    def _compare(self) -> None:
        self.recorder.check()
        self.recorder.check_publications(self.service.disk)
        latest = self.latest()
        said = latest.failure or latest.stalled
        if self.scenario.refusal is not None:
            if said is None or self.scenario.refusal not in said:
                raise Violation("G", f"it should have been refused, but: {said}")
            return
        if latest.failure is not None:
            raise Violation("L", f"the job failed: {latest.failure}")
        changed, least = self.kernel.sometimes.get("schemes changed", 0), self.scenario.schemes_changed
        if changed < least:
            raise Violation("L", f"the scheme has changed {changed} times, not {least}")
        balanced, least = self.kernel.sometimes.get("balanced by load", 0), self.scenario.balanced
        if balanced < least:
            raise Violation("L", f"key groups have moved by load {balanced} times, not {least}")
        self.judge.output.finish(self.service.disk.visible)
        calm = self.scenario.profile is None and not self.moments
        undisturbed = calm and not self.faults.injected
        self.let_collect(lambda: self.judge.left(self.latest(), undisturbed=undisturbed))

    def _advance(self, until_us: int, *, until_done: bool = False) -> bool:
        while self.kernel.now_us < until_us:
            step = min(until_us, self.kernel.now_us + SECOND // 2)
            if self.kernel.run(step, self.done if until_done else None):
                return True
            self.kernel.now_us = step
            if self.kernel.handled > EVENTS_MAX:
                raise Violation("L", f"{EVENTS_MAX} events in {step / SECOND:.0f} virtual seconds")
        return until_done and self.done()

    def done(self) -> bool:
        """Return whether the job has ended: the run that is wanted, not one before it."""
        refused = self.scenario.refusal is not None and self.latest().stalled is not None
        return refused or self.supervisor.ended()

    # --- What a user may do

    def lose_object(self) -> None:
        """Replace the job's object by a new, empty one."""
        self.recorder.check()
        del self.service.objects[LATEST]
        self.begin_object()
        self.judge.lost_object = True

    def begin_elsewhere(self) -> None:
        """End this job's workers, and start another job from the newest savepoint that is complete.

        A savepoint that failed is no savepoint: its request was answered so. The new job has a directory
        and a Lease of its own, the output folder is the same.
        """
        self.kernel.happened("another job begins from a savepoint")
        savepoint = next(reversed(self.judge.savepoints))
        for ordinal in self.ordinals():
            self.end_worker(ordinal)
        self.recorder.check()
        self.jobs += 1
        self.job_uid = JobUid(f"job-{self.jobs}")
        self.service.begin_directory()
        self.judge.begin_job()
        self.monitor = self.judge.monitor
        self.service.objects.pop(LATEST)
        self.begin_object()
        self.begin_lease()
        self.supervisor.begin_from(savepoint, f"run-{self.jobs}")

    def change_job(self, name: str) -> None:
        """Let engines that start from now on compile another plan of the same job."""
        plan, steps = make_plan(name, self.job.shape)
        self.job = replace(self.job, plan=plan, steps=steps)

    # --- Input

    def available(self, split: SplitId) -> int:
        """Return how many records of a split exist by now."""
        return min(len(self.job.input[split]), 1 + self.kernel.now_us // self.pace_us)
