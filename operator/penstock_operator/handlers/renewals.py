"""Recognises a renewal of a Lease by its bytes, before anything is parsed. Pure.

Of a Lease only metadata is kept (``api.projection``). The API server writes metadata in a fixed
order, with ``managedFields`` last. So everything that is kept, except the version, is in two pieces
of an event's text::

    {"type":"MODIFIED","object":{"kind":"Lease",..,"uid":"u","resourceVersion":"7",..,"managedFields":[
                                [--------- head ---------]                        [..]

An event with the same pieces as the last one has changed nothing that is kept. A text of any other
form does not count as a renewal: it is parsed, which only costs time. A quote in a name or a label
is written with a backslash, so no value can look like the end of a piece.
"""

import re
from dataclasses import dataclass, field

HEAD = re.compile(
    rb'\{"type":"MODIFIED","object":(\{"kind":"Lease","apiVersion":"[^"\\]*",'
    rb'"metadata":\{"name":"([^"\\]*)","namespace":"([^"\\]*)","uid":"([^"\\]*)",)'
    rb'"resourceVersion":"(\d{1,19})"'
)
END = b',"managedFields":['
KEPT = 8192  # Leases, of some 800 bytes each; beyond that all are forgotten and learnt again


@dataclass(frozen=True, slots=True)
class Renewal:
    """A Lease with a new version and no other change."""

    namespace: str
    name: str
    uid: str
    version: str


@dataclass(slots=True)
class Renewals:
    """Remembers the pieces of each Lease. The first piece, with kind, name and uid, is the key."""

    pieces: dict[bytes, bytes] = field(default_factory=dict)

    def renewal(self, line: bytes) -> Renewal | None:
        """Return the renewal in a line of a watch; None when the line has to be parsed."""
        found = HEAD.match(line)
        end = -1 if found is None else line.find(END, found.end())
        if found is None or end < 0:
            return None
        head, name, namespace, uid, version = found.groups()
        rest = line[found.end() : end]
        if self.pieces.get(head) == rest:
            return Renewal(namespace.decode(), name.decode(), uid.decode(), version.decode())
        if len(self.pieces) >= KEPT:
            self.forget()
        self.pieces[head] = rest
        return None

    def forget(self) -> None:
        """Forget all pieces, so that each Lease is parsed again. Called when events may have been missed."""
        self.pieces.clear()
