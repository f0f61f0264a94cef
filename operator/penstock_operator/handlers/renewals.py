"""Knows a renewal of a Lease by its bytes, before anything is parsed. Pure.

Of a Lease only metadata is kept (``api.slim``). The API server writes metadata in one order, with
``managedFields`` last. So all that is kept, but for the version, is two pieces of an event's text::

    {"type":"MODIFIED","object":{"kind":"Lease",..,"uid":"u","resourceVersion":"7",..,"managedFields":[
                                [--------- head ---------]                        [..]

An event whose pieces are those of the last one has changed nothing that is kept. A text of any
other form is no renewal here: it is read as a whole, which costs time and nothing else. A quote
within a name or a label is written with a backslash, so no value can look like the end of a piece.
"""

import re
from dataclasses import dataclass, field

HEAD = re.compile(
    rb'\{"type":"MODIFIED","object":(\{"kind":"Lease","apiVersion":"[^"\\]*",'
    rb'"metadata":\{"name":"([^"\\]*)","namespace":"([^"\\]*)","uid":"([^"\\]*)",)'
    rb'"resourceVersion":"(\d{1,19})"'
)
END = b',"managedFields":['
KEPT = 8192  # Leases that are remembered, some 800 bytes each; where there are more, all are learnt anew


@dataclass(frozen=True, slots=True)
class Renewal:
    """A Lease that is at another version, and else as it was."""

    namespace: str
    name: str
    uid: str
    version: str


@dataclass(slots=True)
class Renewals:
    """Remembers the pieces of each Lease, by the first one: it has kind, name and uid."""

    pieces: dict[bytes, bytes] = field(default_factory=dict)

    def renewal(self, line: bytes) -> Renewal | None:
        """Return what a line of a watch renews; None when it has to be read as a whole."""
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
        """Read each Lease as a whole once more: events may have been missed."""
        self.pieces.clear()
