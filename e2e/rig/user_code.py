"""Runs in an engine's container, as user code does: tries what it can read, write, see and call.

Argument: JSON with the job's uid, its host in certificates and the port of the keepers. Prints one
JSON object: how each control call ended, a digest of each file, where it may not write, and the
processes that it sees.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

from penstock.base.errors import PeerError
from penstock.cluster.rpc import DELIVER, Client, Unreachable
from penstock.contract import pod
from penstock.contract.control_messages import Envelope, Shutdown
from penstock.contract.ids import Incarnation, JobUid, Ordinal, Term
from penstock.contract.trust import Trust
from penstock.keeper.pod_platform import CONTROL_TOKEN

LOOKED_AT = ("/etc/penstock", "/run", "/var/run", "/tmp")
NOT_WRITTEN = ("/", "/etc", "/opt/penstock", "/var/lib", pod.TRUST_FOLDER)
CALL_TIMEOUT_S = 3.0


def files() -> dict[str, bytes]:
    """Read every readable file that is not part of the image."""
    found = {}
    for folder in LOOKED_AT:
        for path in Path(folder).rglob("*"):
            try:
                if path.is_file():
                    found[str(path)] = path.read_bytes()
            except OSError:
                continue  # unreadable files are what this test is about
    return found


def call(address: str, token: str, shown: Trust | None, uid: str) -> str:
    """Ask for a shutdown as a leader does; return the result."""
    order = Shutdown(Incarnation("nobody"), "as user code")
    envelope = Envelope(JobUid(uid), Term(1), Ordinal(0), order)
    client = Client(address, token, shown)
    try:
        client.call(DELIVER, envelope, CALL_TIMEOUT_S)
    except (Unreachable, PeerError) as error:
        return type(error).__name__
    finally:
        client.close()
    return "heard"


def refuses_writes(folder: str) -> bool:
    """Say whether a folder is read-only."""
    try:
        Path(folder, "written").write_text("")
    except OSError:
        return True
    return False


def processes() -> list[str]:
    """List the command lines of all visible processes."""
    found = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    return [line.replace(b"\0", b" ").decode(errors="replace").strip() for line in found]


def main() -> None:
    """Try everything, and print the results."""
    asked = json.loads(sys.argv[1])
    read = files()
    names = (pod.CA_KEY, pod.CERTIFICATE_KEY, pod.PRIVATE_KEY)
    ca, certificate, private = (read[f"{pod.TRUST_FOLDER}/{name}"] for name in names)
    address = f"{os.environ[pod.ENV_POD_IP]}:{asked['port']}"
    calls = {}
    for name, key in {**read, "the uid": b""}.items():
        shown = Trust(asked["host"], ca, certificate, private, key)
        token = shown.token(CONTROL_TOKEN, asked["uid"].encode()) if key else asked["uid"]
        calls[name] = call(address, token, shown, asked["uid"])
        calls[f"{name}, in plain text"] = call(address, token, None, asked["uid"])
    print(
        json.dumps(
            {
                "calls": calls,
                "files": {name: hashlib.sha256(data).hexdigest() for name, data in read.items()},
                "refuses": [folder for folder in NOT_WRITTEN if refuses_writes(folder)],
                "processes": processes(),
            }
        )
    )


if __name__ == "__main__":
    main()
