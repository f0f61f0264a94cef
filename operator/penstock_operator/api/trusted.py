"""What decisions see of a job's certificates: the signer and the lifetime, and never a key.

Secrets are read separately. In memory a summary replaces their data; :func:`trust_view` reads it.
"""

from dataclasses import dataclass

from penstock_operator.api import names
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at, whole_of

SUMMARY = "trust"  # where the summary is in the object of a Secret


@dataclass(frozen=True, slots=True)
class Root:
    """An authority, valid in ``begins..ends`` (seconds since 1970). Its name is a digest of its key.

    ``signs``: its key still exists.
    """

    name: str
    begins: float
    ends: float
    signs: bool


@dataclass(frozen=True, slots=True)
class Leaf:
    """The workers' certificate, and the name of the authority that signed it."""

    issuer: str
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class AuthorityView:
    """``{secret}-ca``: the authorities, the oldest first, with the keys of those that sign.

    ``line`` is the trust line. It rises when new certificates begin that no running worker trusts.
    """

    version: str
    line: int
    roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class CertificatesView:
    """The Secret that workers mount: ``roots`` are the authorities that they trust.

    ``leaf`` is None when the certificate, its key or the Secret is missing or unreadable.
    """

    version: str
    line: int
    roots: tuple[Root, ...]
    leaf: Leaf | None


@dataclass(frozen=True, slots=True)
class TrustView:
    """One of the job's Secrets and the Secret that it is made from; None when one is missing."""

    authority: AuthorityView | None = None
    certificates: CertificatesView | None = None


def trust_view(authority: Object | None, certificates: Object | None) -> TrustView:
    """View the two Secrets. Either may be missing."""
    return TrustView(
        None if authority is None else _authority(authority),
        None if certificates is None else _certificates(certificates),
    )


def _authority(plain: Object) -> AuthorityView:
    return AuthorityView(text_at(plain, "metadata", "resourceVersion"), _line(plain), _roots(plain))


def _certificates(plain: Object) -> CertificatesView:
    found = object_at(plain, SUMMARY, "leaf")
    leaf = Leaf(text_at(found, "issuer"), _number(found, "begins"), _number(found, "ends"))
    return CertificatesView(
        text_at(plain, "metadata", "resourceVersion"),
        _line(plain),
        _roots(plain),
        leaf if found else None,
    )


def _roots(plain: Object) -> tuple[Root, ...]:
    return tuple(
        Root(
            text_at(root, "name"),
            _number(root, "begins"),
            _number(root, "ends"),
            at(root, "signs") is True,
        )
        for root in list_at(plain, SUMMARY, "roots")
    )


def _line(plain: Object) -> int:
    return max(1, whole_of(text_at(plain, "metadata", "annotations", names.ANNOTATION_LINE)))


def _number(plain: object, key: str) -> float:
    found = plain.get(key) if isinstance(plain, dict) else None
    return float(found) if isinstance(found, int | float) else 0.0
