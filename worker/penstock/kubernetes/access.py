"""Who asks the API server, and where it is: a pod's service account, or a kubeconfig's user.

A kubeconfig may name a command that prints a token (``exec``); it is run as its user wrote it.
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from penstock.base.addresses import join_address
from penstock.base.errors import ConfigError, PeerError
from penstock.contract.codec import parsed

EXEC_TIMEOUT_S = 30.0
Token = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Access:
    """One server and one user. ``token`` is asked for each request: a mounted one is renewed."""

    server: str
    tls: ssl.SSLContext
    token: Token
    namespace: str


def no_token() -> str | None:
    """Return no token: the certificate identifies the client."""
    return None


# --- In a pod ---------------------------------------------------------------------------------


def pod_access(environment: Mapping[str, str], folder: Path, namespace: str) -> Access:
    """Return the access of a pod's service account, whose token is mounted at ``folder``.

    Raises ConfigError outside of a pod.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this is not a pod of a cluster")
    try:
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        (folder / "token").read_text()
    except OSError as error:
        raise ConfigError(
            f"{folder}: {error.strerror}: the keeper's container needs the service account's "
            "projected token and the cluster's ca.crt there"
        ) from error

    def token() -> str:
        return (folder / "token").read_text().strip()  # the kubelet writes a new one in time

    return Access(f"https://{join_address(host, port)}", tls, token, namespace)


# --- On a person's machine --------------------------------------------------------------------


def kubeconfig_access(context: str | None, namespace: str | None, environment: Mapping[str, str]) -> Access:
    """Return the access of a kubeconfig's context, the current one unless it is named.

    Files as kubectl finds them: ``KUBECONFIG`` (several, the first to name a thing counts), else
    ``~/.kube/config``. Raises ConfigError saying what is not there.
    """
    config = _load(environment)
    name = context or config.current
    if not name:
        raise ConfigError("the kubeconfig has no current context: give one with --context")
    chosen = config.find("contexts", name, "context")
    cluster = config.find("clusters", str(chosen.get("cluster")), "cluster")
    user = config.find("users", str(chosen.get("user")), "user")
    where = namespace or str(chosen.get("namespace") or "default")
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise ConfigError(f"context {name!r}: its cluster has no server address")
    return Access(server.rstrip("/"), _tls(cluster, user), _token(user), where)


class _Config:
    """Several kubeconfig files as one; each remembers its folder, for relative paths."""

    def __init__(self, files: list[tuple[Path, dict[str, Any]]]) -> None:
        self._files = files
        self.current = next((str(c) for _, f in files if (c := f.get("current-context"))), None)

    def find(self, group: str, name: str, part: str) -> dict[str, Any]:
        """Return one named entry, its relative paths made absolute. Raises ConfigError."""
        known: list[str] = []
        for folder, file in self._files:
            for entry in file.get(group) or []:
                known.append(str(entry.get("name")))
                if entry.get("name") == name:
                    return _absolute(entry.get(part) or {}, folder)
        raise ConfigError(f"kubeconfig: no {part} {name!r}; there are: {', '.join(known) or '-'}")


_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def _absolute(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    return {k: str(folder / v) if k in _PATHS and v else v for k, v in entry.items()}


def _load(environment: Mapping[str, str]) -> _Config:
    listed = environment.get("KUBECONFIG")
    home = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    paths = [Path(p) for p in listed.split(os.pathsep) if p] if listed else [home]
    files: list[tuple[Path, dict[str, Any]]] = []
    for path in paths:
        try:
            plain = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}") from error
        if isinstance(plain, dict):
            files.append((path.parent, plain))
    if not files:
        raise ConfigError(f"no kubeconfig: {', '.join(map(str, paths))}")
    return _Config(files)


def _tls(cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif authority := _content(cluster, "certificate-authority"):
            context.load_verify_locations(cadata=authority.decode())
        certificate, key = _content(user, "client-certificate"), _content(user, "client-key")
        if certificate and key:
            _load_pair(context, certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(f"kubeconfig: certificates: {error}") from error
    return context


def _content(entry: dict[str, Any], name: str) -> bytes | None:
    if inline := entry.get(f"{name}-data"):
        return base64.b64decode(inline)
    return Path(entry[name]).read_bytes() if entry.get(name) else None


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load from a file that only we can read and that is gone at once: ssl takes no bytes."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _token(user: dict[str, Any]) -> Token:
    if text := user.get("token"):
        return lambda: str(text)
    if path := user.get("tokenFile"):
        return lambda: Path(path).read_text().strip()
    if command := user.get("exec"):
        found = _run(command)
        return lambda: found
    return no_token


def _run(command: dict[str, Any]) -> str:
    """Run a credential plugin once: our commands are short. Raises ConfigError."""
    words = [str(command.get("command")), *map(str, command.get("args") or [])]
    added = {str(e["name"]): str(e["value"]) for e in command.get("env") or []}
    added["KUBERNETES_EXEC_INFO"] = json.dumps(
        {"apiVersion": command.get("apiVersion"), "kind": "ExecCredential", "spec": {}}
    )
    try:
        done = subprocess.run(
            words, env={**os.environ, **added}, timeout=EXEC_TIMEOUT_S, check=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        return str(parsed(done.stdout)["status"]["token"])
    except (OSError, subprocess.SubprocessError, PeerError, KeyError, TypeError) as error:
        raise ConfigError(f"kubeconfig: {words[0]} gave no token: {error}") from error
