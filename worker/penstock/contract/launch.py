"""What a keeper tells the engine it starts, in a small file: who it is and where things are."""

from dataclasses import dataclass

from penstock.contract.ids import Incarnation, JobUid, Ordinal


@dataclass(frozen=True, slots=True)
class EngineLaunch:
    """One life of one worker's engine. Written by the keeper, read once by the engine.

    - ``socket``: the keeper's end, as ``fd:N``: a connected stream socket that is inherited.
    - ``job_file``: the resolved job, JSON; ``storage``: the directory of the job's checkpoints,
      shared by all workers; ``scratch``: a local folder of this life alone, to be emptied.
    - ``bind``: the address the engine's Flight server listens on, the port chosen by the system.
    - ``heartbeat_interval_s``: how often EngineStatus is repeated; it is the sign of life.
    """

    job_uid: JobUid
    job: str
    namespace: str
    ordinal: Ordinal
    incarnation: Incarnation
    socket: str
    job_file: str
    storage: str
    scratch: str
    heartbeat_interval_s: float
    bind: str = "127.0.0.1"
