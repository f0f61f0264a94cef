"""The settings of the operator: environment variables, read once. An unknown one is an error."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown

PREFIX = "PENSTOCK_"
KNOWN = (
    "PENSTOCK_NAMESPACES",
    "PENSTOCK_WORKERS",
    "PENSTOCK_HTTP_PORT",
    "PENSTOCK_PROBE_PORT",
    "PENSTOCK_LEADER_ELECTION",
    "PENSTOCK_LOG_LEVEL",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings.

    - ``namespaces``: those whose jobs are handled; empty: all.
    - ``identity``: the name of this process, which is the name of its pod in a cluster.
    - ``pod_uid``: the uid of that pod; empty outside a cluster.
    - ``lease``: the name of the Lease by which one of several processes leads. Each release of the chart has its own.
    - ``probe_port``: the port of Kopf's own liveness page; 0: none.
    """

    namespaces: tuple[str, ...] = ()
    namespace: str = "default"
    identity: str = "operator"
    pod_uid: str = ""
    lease: str = "penstock-operator"
    workers: int = 8
    http_port: int = 8080
    probe_port: int = 0
    leader_election: bool = True
    log_level: str = "INFO"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings. Raises ConfigError that names the variable."""
    for name in environment:
        if name.startswith(PREFIX) and name not in KNOWN and not _from_a_service(name):
            raise ConfigError(f"{name}: {unknown('variable', name, KNOWN)}")
    listed = environment.get("PENSTOCK_NAMESPACES", "")
    return Settings(
        namespaces=tuple(n.strip() for n in listed.split(",") if n.strip()),
        namespace=environment.get("POD_NAMESPACE", "default"),
        identity=environment.get("POD_NAME", "operator"),
        pod_uid=environment.get("POD_UID", ""),
        lease=environment.get("LEASE_NAME", "penstock-operator"),
        workers=_whole(environment, "PENSTOCK_WORKERS", 8, at_least=1),
        http_port=_whole(environment, "PENSTOCK_HTTP_PORT", 8080, at_least=0),
        probe_port=_whole(environment, "PENSTOCK_PROBE_PORT", 0, at_least=0),
        leader_election=environment.get("PENSTOCK_LEADER_ELECTION", "true") != "false",
        log_level=environment.get("PENSTOCK_LOG_LEVEL", "INFO"),
    )


def _from_a_service(name: str) -> bool:
    """Say whether Kubernetes set the variable: it sets some for each Service of the namespace."""
    return any(part in name for part in ("_SERVICE_", "_PORT_")) or name.endswith("_PORT")


def _whole(environment: Mapping[str, str], name: str, default: int, *, at_least: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdecimal() or int(text) < at_least:
        raise ConfigError(f"{name}={text!r}: expected a whole number of at least {at_least}")
    return int(text)
