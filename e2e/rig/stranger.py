"""Runs in a pod that is no worker of the job: knocks at a worker's doors with what it was given.

Arguments: the worker's address, then its ports. Prints one JSON object: how each way in ended.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

TIMEOUT_S = 5.0


def shown(folder: str) -> dict[str, Any]:
    """Give the options of a client that shows the certificate in a mounted folder."""
    name = Path(folder, "host").read_text().strip()
    return {
        "tls_root_certs": Path(folder, "ca.crt").read_bytes(),
        "cert_chain": Path(folder, "tls.crt").read_bytes(),
        "private_key": Path(folder, "tls.key").read_bytes(),
        "override_hostname": name,
    }


def knock(location: str, **options: Any) -> str:
    """Give the class of the error that a call ends with; `let in` without one."""
    client = fl.FlightClient(location, **options)
    try:
        list(client.do_action("who", options=fl.FlightCallOptions(timeout=TIMEOUT_S)))
    except pa.ArrowException as error:
        return type(error).__name__
    return "let in"


def main() -> None:
    """Try every way in at every port."""
    address, *ports = sys.argv[1:]
    found = {}
    for port in ports:
        place = f"{address}:{port}"
        plain, tls = f"grpc://{place}", f"grpc+tls://{place}"
        found[port] = {
            "plain": knock(plain),
            "no certificate": knock(tls, disable_server_verification=True),
            "another job's": knock(tls, **{**shown("/other"), "disable_server_verification": True}),
            "its own": knock(tls, **shown("/own")),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
