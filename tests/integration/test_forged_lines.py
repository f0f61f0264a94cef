"""User code that prints text in the form of our log lines: it is passed on as the user's output."""

import io
import json
import socket
import threading
import uuid
from pathlib import Path

from penstock.cluster.host import Began, Begin, Ended, FromStarter, ToHost
from penstock.cluster.link import DescriptorLink
from penstock.cluster.memory_kills import MemoryKills
from penstock.contract.control_messages import EngineLaunch
from penstock.contract.ids import Incarnation, JobUid, Ordinal
from penstock.engine.pod_host import STDERR, STDOUT, PodHost
from penstock.metrics.logs import JsonLog

FORGED = '{"component": "keeper", "job": "other", "event": "forged", "time": "2001"}'
SCRIPT = f"""
import os, sys
print('{FORGED}', file=sys.stderr)
print('{FORGED}')
os.write(2, b'{FORGED}')
raise SystemExit("done")
"""


def test_lines_of_user_code_forge_no_field(tmp_path: Path) -> None:
    job = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": "words"},
        "spec": {"job": {"script": SCRIPT + "\ndef job(params): ...\n"}},
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    written = io.StringIO()
    ours, theirs = (DescriptorLink(s, k) for s, k in
                    zip(socket.socketpair(), (FromStarter, ToHost), strict=True))  # fmt: skip
    host = PodHost(theirs, JsonLog("engine", {"pod": "words-worker-0"}, written).quote, MemoryKills())
    thread = threading.Thread(target=host.run)
    thread.start()
    keepers, engines = socket.socketpair()
    ours.send(Begin(launch(tmp_path)), engines.fileno())
    engines.close()
    said = [ours.receive()[0] for _ in range(2)]
    keepers.close()
    ours.close()
    thread.join()
    assert [type(word) for word in said] == [Began, Ended]
    found = [json.loads(line) for line in written.getvalue().splitlines()]
    forged = [line for line in found if FORGED in line["message"]]
    assert {line["source"] for line in forged} == {STDERR, STDOUT}, found
    for line in found:
        assert line.keys() == {"time", "source", "message", "component", "pod"}
        assert (line["component"], line["pod"]) == ("engine", "words-worker-0")


def launch(root: Path) -> EngineLaunch:
    return EngineLaunch(
        job_uid=JobUid("uid"),
        job="words",
        namespace="default",
        ordinal=Ordinal(0),
        incarnation=Incarnation(str(uuid.uuid4())),
        socket="",
        job_file=str(root / "job.json"),
        storage=str(root / "storage"),
        scratch=str(root / "scratch"),
        heartbeat_interval_s=0.1,
    )
