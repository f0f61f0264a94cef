"""Runs a command with a loopback interface of a given rate: a slow network on one machine.

The command runs in its own network namespace. The loopback interface there has a token bucket, which
both directions share. Other processes are not slowed down.
"""

import os
import shutil
from collections.abc import Sequence

_SHAPED = 'ip link set lo up && tc qdisc add dev lo root tbf rate "$0" burst 256kb latency 50ms && exec "$@"'
_TOOLS = {"unshare": "util-linux", "ip": "iproute2", "tc": "iproute2"}


def command(rate: str, what: Sequence[str]) -> list[str]:
    """Return the command that runs ``what`` on a loopback of ``rate`` (as tc spells it: 1gbit).

    Raises SystemExit naming what is missing for that.
    """
    if not rate:
        return list(what)
    lacks = sorted({package for tool, package in _TOOLS.items() if shutil.which(tool) is None})
    if lacks:
        raise SystemExit(f"a link of {rate} needs {', '.join(lacks)}: apt-get install them")
    if os.geteuid() != 0:
        raise SystemExit(f"a link of {rate} needs a network namespace: run it as root")
    return ["unshare", "--net", "sh", "-c", _SHAPED, rate, *what]
