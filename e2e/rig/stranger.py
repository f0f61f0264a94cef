"""Runs in a pod that is not a worker of the job: tries to connect to a worker with what it has.

Arguments: the worker's address, then its ports. Prints one JSON object: the result of each try.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

TIMEOUT_S = 5.0


def shown(folder: str) -> dict[str, Any]:
    """Give the options of a client with the certificate of a mounted folder."""
    name = Path(folder, "host").read_text().strip()
    return {
        "tls_root_certs": Path(folder, "ca.crt").read_bytes(),
        "cert_chain": Path(folder, "tls.crt").read_bytes(),
        "private_key": Path(folder, "tls.key").read_bytes(),
        "override_hostname": name,
    }


def knock(location: str, **options: Any) -> str:
    """Give the class of the error that a call raises; `let in` when it succeeds."""
    client = fl.FlightClient(location, **options)
    try:
        list(client.do_action("who", options=fl.FlightCallOptions(timeout=TIMEOUT_S)))
    except pa.ArrowException as error:
        return type(error).__name__
    return "let in"


def main() -> None:
    """Try each kind of client at each port."""
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
