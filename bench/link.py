"""A loopback interface of a given rate, so that a slow network can be had on one machine.

The command runs in a network namespace of its own, whose loopback interface has a token bucket:
nothing outside is slowed down. Both directions share the rate.
"""

import os
import shutil
from collections.abc import Sequence

_SHAPED = (
    'ip link set lo up && tc qdisc add dev lo root tbf rate "$0" burst 256kb latency 50ms'
    ' && exec "$@"'
)
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
