"""A REST catalog that answers, or an error: the client's own has no bound on time.

Only ``client.py`` imports this module, when a connector has such a catalog, because pyiceberg is an extra.
"""

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

CONNECT_MAX_S = 10.0
SILENT_MAX_S = 60.0


class BoundedRestCatalog(RestCatalog):
    """A REST catalog of which every request has a bound on time. Nothing is sent twice."""

    def _config_headers(self, session: Session) -> None:
        # The first call on a session, before a token is asked for.
        super()._config_headers(session)
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Bounded())


class _Bounded(HTTPAdapter):
    def send(self, request: PreparedRequest, **options: Any) -> Response:  # type: ignore[override]
        options["timeout"] = options.get("timeout") or (CONNECT_MAX_S, SILENT_MAX_S)
        return super().send(request, **options)
