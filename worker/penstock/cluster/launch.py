"""What a keeper is started with, and the names of the objects it shares."""

from penstock.contract.codec import Message
from penstock.contract.ids import JobUid, Ordinal
from penstock.protocol.core_context import ControlSettings


class KeeperLaunch(Message, tag="KeeperLaunch"):
    """One worker's keeper. Written by the supervisor to a file that only its user can read.

    - ``supervisor``, ``token``: where metadata and Lease are served, and the secret of this run.
    - ``job_file``: the resolved job; the engine reads it, the keeper does not.
    - ``storage``, ``savepoints``: directories that all workers share.
    - ``scratch``: a local directory of this worker.
    - ``pages``: a folder that the keeper and its engine share, in memory where there is one; empty:
      ``scratch``.
    - ``forks``: the fork server's socket; empty where there is none.
    """

    job_uid: JobUid
    job: str
    namespace: str
    ordinal: Ordinal
    supervisor: str
    token: str
    job_file: str
    storage: str
    savepoints: str
    scratch: str
    control: ControlSettings
    forks: str = ""
    pages: str = ""
