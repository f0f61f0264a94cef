"""All jobs of the runs, by name. They are imported when the twins are in place: see :mod:`sim.real_engine.install`."""

from sim.real_engine.jobs.accounts import ConnectedJob
from sim.real_engine.jobs.asked import AskedJob
from sim.real_engine.jobs.checked_job import CheckedJob, OutputPlace
from sim.real_engine.jobs.clocked import ClockedJob
from sim.real_engine.jobs.counting import CountingJob, Size
from sim.real_engine.jobs.endless import EndlessJob
from sim.real_engine.jobs.forgetful import ForgetfulJob
from sim.real_engine.jobs.joined import JoinedJob
from sim.real_engine.jobs.looked_up import LookedUpJob
from sim.real_engine.jobs.migrated import MigratedJob
from sim.real_engine.jobs.paned import PanedJob
from sim.real_engine.jobs.priced import PricedJob
from sim.real_engine.jobs.pushed import PushedJob
from sim.real_engine.jobs.sided import SidedJob
from sim.real_engine.jobs.tabled import TabledJob
from sim.real_engine.jobs.tally import TallyJob
from sim.real_engine.jobs.timer_job import TimerJob
from sim.real_engine.jobs.windowed import WindowedJob

SLOW = Size(files=3, rows=160, rate=50, queued=150)  # so that there are many checkpoints


def _on_disk(job: CheckedJob) -> CheckedJob:
    job.on_disk = True
    return job


JOBS: dict[str, CheckedJob] = {
    "asked": AskedJob(),
    "asked-on-disk": _on_disk(AskedJob()),
    "clocked": ClockedJob(),
    "clocked-on-disk": _on_disk(ClockedJob()),
    "connected": ConnectedJob(),
    "connected-on-disk": _on_disk(ConnectedJob()),
    "count": CountingJob(Size(files=3, rows=160, rate=150, queued=150)),
    "count-bucket": CountingJob(SLOW, OutputPlace.BUCKET),
    "count-table": CountingJob(SLOW, OutputPlace.TABLE),
    "count-topic": CountingJob(SLOW, OutputPlace.TOPIC),
    "count-little": CountingJob(Size(files=2, rows=60, rate=150, queued=40)),
    "endless": EndlessJob(),
    "forgetful": ForgetfulJob(),
    "forgetful-on-disk": _on_disk(ForgetfulJob()),
    "joined": JoinedJob(),
    "joined-on-disk": _on_disk(JoinedJob()),
    "looked-up": LookedUpJob(),
    "migrated": MigratedJob(),
    "paned": PanedJob(),
    "paned-on-disk": _on_disk(PanedJob()),
    "priced": PricedJob(),
    "priced-on-disk": _on_disk(PricedJob()),
    "pushed": PushedJob(),
    "pushed-on-disk": _on_disk(PushedJob()),
    "sided": SidedJob(),
    "sided-on-disk": _on_disk(SidedJob()),
    "tabled": TabledJob(),
    "tabled-on-disk": _on_disk(TabledJob()),
    "tally": TallyJob(),
    "timers": TimerJob(),
    "timers-on-disk": _on_disk(TimerJob()),
    "windowed": WindowedJob(),
    "windowed-on-disk": _on_disk(WindowedJob()),
}
