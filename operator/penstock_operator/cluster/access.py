"""The address of the API server and the credentials: Kopf's logins, for our own client."""

import base64
import logging
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

import kopf

from penstock.base.errors import ConfigError
from penstock.kubernetes.answers import request_headers

TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
LOG = logging.getLogger("penstock_operator")


@dataclass(frozen=True, slots=True)
class Access:
    """A server and the credentials for it.

    The token in ``token_file`` is read for each request, because the kubelet renews it there.
    """

    server: str
    tls: ssl.SSLContext
    token: str | None
    token_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers of a request. A token file is read each time, because its token is replaced."""
        token = self.token if self.token_file is None else self.token_file.read_text().strip()
        return request_headers(token)


def login(settings: kopf.OperatorSettings) -> kopf.ConnectionInfo:
    """Find the API server as a pod does, or as kubectl does. Raises ConfigError."""
    if os.environ.get("KUBERNETES_SERVICE_HOST") and TOKEN_FILE.exists():
        found = kopf.login_with_service_account(logger=LOG, settings=settings)
    else:
        found = kopf.login_with_kubeconfig(logger=LOG, settings=settings)
    if found is None:
        raise ConfigError("no API server: neither a pod's service account nor a kubeconfig")
    return found


def access_of(info: kopf.ConnectionInfo) -> Access:
    """Convert a login of Kopf for our client."""
    tls = ssl.create_default_context()
    if info.insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    elif info.ca_path:
        tls.load_verify_locations(cafile=str(info.ca_path))
    elif info.ca_data:
        tls.load_verify_locations(cadata=_decoded(info.ca_data).decode())
    if info.certificate_path and info.private_key_path:
        tls.load_cert_chain(str(info.certificate_path), str(info.private_key_path))
    elif info.certificate_data and info.private_key_data:
        with tempfile.NamedTemporaryFile() as file:  # ssl reads only files; this one is removed
            file.write(_decoded(info.certificate_data) + b"\n" + _decoded(info.private_key_data))
            file.flush()
            tls.load_cert_chain(file.name)
    in_pod = TOKEN_FILE.exists() and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    return Access(info.server.rstrip("/"), tls, info.token, TOKEN_FILE if in_pod else None)


def _decoded(data: str | bytes) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return raw if raw.lstrip().startswith(b"-----BEGIN") else base64.b64decode(raw)
