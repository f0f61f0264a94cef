"""Names of stored files: ``<term>-<epoch>-<incarnation>-<n>`` plus a suffix, never used twice.

The epoch in a name is that of the only manifest that may list the file first. The incarnation is
a UUID of one life of an engine or keeper, so two lives never write the same name.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.contract.ids import BlobName, Epoch, Term

if TYPE_CHECKING:
    from penstock.contract.ids import Incarnation

MEMBERS_SUFFIX = ".members.json"
ROOT_SUFFIX = ".root.json"


@dataclass(frozen=True, slots=True)
class NameParts:
    """What collection reads from a name; ``members`` says that it is a members file."""

    term: Term
    epoch: Epoch
    members: bool


def blob_name(term: Term, epoch: Epoch, life: "Incarnation", number: int, suffix: str) -> BlobName:
    """Spell the name of a new file; ``number`` counts the files of this ``life``."""
    return BlobName(f"{term}-{epoch}-{life}-{number}{suffix}")


def parse_name(name: BlobName) -> NameParts | None:
    """Read a name back; None when it is none of ours, and so never to be collected."""
    parts = name.rsplit("/", 1)[-1].split("-", 2)
    if len(parts) < 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    return NameParts(Term(int(parts[0])), Epoch(int(parts[1])), name.endswith(MEMBERS_SUFFIX))
