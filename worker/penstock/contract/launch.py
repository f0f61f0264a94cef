"""The small file that a keeper writes for an engine: which engine it is, and where things are."""

from penstock.contract.codec import Message
from penstock.contract.ids import Incarnation, JobUid, Ordinal


class EnginePlace(Message, tag="EnginePlace"):
    """Where an engine's Flight server listens, and where peers dial it; port 0: any free one.

    ``ingest_port`` is that of senders of a pushed source, at the same host; 0: they are heard at
    a Unix socket, in a folder that only this user may enter.
    ``advertised`` None: peers dial ``host``. ``trust`` is the folder of the job's certificates and
    ``certificate_host`` the name in them; None: no TLS, for the loopback address only. There
    ``secret`` keeps other users of the machine out: workers show each other that they know it.
    """

    host: str = "127.0.0.1"
    port: int = 0
    advertised: str | None = None
    ingest_port: int = 0
    trust: str | None = None
    certificate_host: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        """Show everything but the secret."""
        shown = [n for n in self.__struct_fields__ if n != "secret"]
        return f"EnginePlace({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


class EngineLaunch(Message, tag="EngineLaunch"):
    """One life of one worker's engine. Written by the keeper, read once by the engine.

    - ``socket``: the keeper's end, as ``fd:N``: a connected stream socket that is inherited.
    - ``job_file``: the resolved job, JSON; ``storage``: the directory of the job's checkpoints,
      shared by all workers; ``scratch``: a local folder of this life alone, to be emptied.
    - ``place``: where the engine's Flight server listens.
    - ``page``: the file in which the engine says what it works on, see ``cluster/in_flight``;
      empty: nobody reads it.
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
    place: EnginePlace = EnginePlace()
    page: str = ""
