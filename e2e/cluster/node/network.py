"""The pod network of a cluster without a registry: one agent per node, which writes routes.

The pods of each node have their own range of addresses. The agent adds a route to the range of each
other node, and writes the configuration once that the kubelet needs to start pods. It enforces
NetworkPolicy for its pods (policies.py); a new policy holds within two seconds. It needs nothing but
the standard library.
"""

import json
import os
import ssl
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # both are in one ConfigMap
import policies  # type: ignore[import-not-found]

ALL_PODS = "10.244.0.0/16"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONFIGURATION = Path("/cni/10-penstock.conflist")
LOOK_EVERY_S = 2.0


def listed(path: str) -> list[Any]:
    """Read objects from the API server's own address, because no Service works yet."""
    request = urllib.request.Request(
        f"https://{os.environ['ENDPOINT']}{path}",
        headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"},
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, context=context, timeout=5) as answer:
        found: list[Any] = json.load(answer)["items"]
        return found


def network_of(cidr: str) -> str:
    """Give the CNI configuration of a node whose pods have the addresses ``cidr``."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": cidr}]],
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": addresses},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "penstock", "plugins": plugins})


def masquerade(cidr: str) -> None:
    """Let pods reach addresses outside with the address of their node. Idempotent."""
    rule = ["POSTROUTING", "-s", cidr, "!", "-d", ALL_PODS, "-o", "eth0", "-j", "MASQUERADE"]
    table = ["iptables", "-w", "-t", "nat"]
    if subprocess.run([*table, "-C", *rule], check=False, capture_output=True).returncode:
        subprocess.run([*table, "-A", *rule], check=True)


def arrange(node: Any, me: str) -> None:
    """Add the route to another node, or write the configuration of our own node."""
    cidr = node["spec"].get("podCIDR")
    known = node["status"].get("addresses", [])
    addresses = [each["address"] for each in known if each["type"] == "InternalIP"]
    if not cidr or not addresses:
        return
    if node["metadata"]["name"] != me:
        subprocess.run(["ip", "route", "replace", cidr, "via", addresses[0]], check=True)
        return
    masquerade(cidr)  # a node that had no power has lost it
    if not CONFIGURATION.exists() or CONFIGURATION.read_text() != network_of(cidr):
        part = CONFIGURATION.with_suffix(".part")
        part.write_text(network_of(cidr))
        part.rename(CONFIGURATION)
        print("network of", cidr, flush=True)


def enforce(me: str, before: str) -> str:
    """Enforce the policies for the pods of this node. Gives the present rules. Idempotent."""
    found = listed("/apis/networking.k8s.io/v1/networkpolicies")
    pods, spaces = listed("/api/v1/pods"), listed("/api/v1/namespaces")
    wanted: str = policies.rules(found, pods, spaces, me)
    if wanted != before:
        restore = ["iptables-restore", "-w", "5", "--noflush"]
        subprocess.run(restore, input=wanted, text=True, check=True)
        print("rules:", wanted.count("\n"), flush=True)
    jump = ["FORWARD", "-j", policies.CHAIN]
    if subprocess.run(["iptables", "-w", "-C", *jump], check=False, capture_output=True).returncode:
        subprocess.run(["iptables", "-w", "-I", *jump], check=True)
    return wanted


def main() -> None:
    """Update forever. Failures are printed and tried again."""
    never, enforced, me = threading.Event(), "", os.environ["NODE"]
    while not never.wait(LOOK_EVERY_S):
        try:
            for node in listed("/api/v1/nodes"):
                arrange(node, me)
            enforced = enforce(me, enforced)
        except (OSError, subprocess.CalledProcessError) as error:
            print(repr(error), flush=True)


if __name__ == "__main__":
    main()
