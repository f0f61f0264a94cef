"""When certificates are renewed, which authority signs them, and which authorities are trusted.

::

    {secret}-ca   authorities with their keys, and the workers' key; mounted by no pod
        │ the newest authority that all workers have had time to learn of signs
        v
    {secret}      all authorities that have not expired, one certificate, the workers' key

An authority and a certificate are renewed after two thirds of their life. A new authority is
trusted at once, and signs a day later unless no other can sign. An old authority stops signing when
the next one begins to sign. It is trusted until it expires, so its certificates stay valid.

A lost Secret is created again: ``{secret}`` from ``{secret}-ca``; ``{secret}-ca`` with a new
authority and with what ``{secret}`` still has. If both are lost, no new certificate can be trusted
by the running workers. Then a new **trust line** begins: workers of an older line are restarted.
"""

from penstock_operator.api import names
from penstock_operator.api.observed import CertificatesView, ChildKey, Observed, Root, TrustView
from penstock_operator.reconcile.actions import DecisionBuilder, WriteAuthority, WriteCertificates
from penstock_operator.resources.target import Target

DAY_S = 24 * 3600.0
AUTHORITY_LIFE_S = 730 * DAY_S
LEAF_LIFE_S = 90 * DAY_S
SKEW_S = 3600.0  # certificates begin this much earlier: clocks of nodes may differ
# The kubelet updates a mounted Secret within two minutes. A node that is cut off for a day has lost
# its pods.
KNOWN_AFTER_S = DAY_S
NEWEST = ""  # as a signer: the newest authority of all
RENEWED, LOST = "CertificatesRenewed", "CertificatesLost"  # reasons of events


def reconcile_certificates(seen: Observed, target: Target, builder: DecisionBuilder) -> None:
    """Create, repair and renew the Secrets with certificates, unless they were not read yet."""
    if seen.trust is None or not target.spec.security.mtls:
        return
    for secret in sorted(seen.trust):
        if _is_foreign(seen, secret):
            continue
        steps = trust_steps(secret, seen.trust[secret], trust_line_of(seen, secret), seen.now)
        for step in steps:
            builder.do(step)
        if steps and seen.stateful_set is not None and not _both_lost(seen, seen.trust[secret]):
            builder.tell(RENEWED, f"Secret {secret}: {_renewal_message(seen.trust[secret])}")


def _is_foreign(seen: Observed, secret: str) -> bool:
    """Say whether one of the two Secrets belongs to another owner."""
    both = (ChildKey("Secret", name) for name in (secret, names.authority_name(secret)))
    return any(not seen.owns(seen.children[key]) for key in both if key in seen.children)


def trust_steps(secret: str, view: TrustView, line: int, now: float) -> tuple[WriteAuthority | WriteCertificates, ...]:
    """Return the writes that are due, in order; empty when none is."""
    found, mounted = view.authority, view.certificates
    had = _roots_of(view)
    kept = tuple(root for root in had if now < root.ends)
    signers = [root for root in kept if root.signs]
    grow = all(_is_due(root.begins, root.ends, now) for root in signers)
    known = [root for root in signers if now >= root.begins + SKEW_S + KNOWN_AFTER_S]
    signing = tuple(r.name for r in signers if not known or r.begins >= known[-1].begins)
    names_kept = tuple(root.name for root in kept)
    steps: list[WriteAuthority | WriteCertificates] = []
    same = found is not None and kept == found.roots and len(signing) == len(signers)
    if grow or not same:
        version = "" if found is None else found.version
        steps.append(WriteAuthority(secret, version, line, names_kept, signing, grow))
    signer = _signer(mounted, kept, known or signers, now)
    believed = () if mounted is None else tuple(root.name for root in mounted.roots)
    if signer is not None or grow or believed != names_kept:
        version = "" if mounted is None else mounted.version
        steps.append(WriteCertificates(secret, version, line, signer))
    return tuple(steps)


def _roots_of(view: TrustView) -> tuple[Root, ...]:
    """Return the authorities that are in either Secret, the oldest first."""
    found = () if view.authority is None else view.authority.roots
    there = {root.name for root in found}
    mounted = () if view.certificates is None else view.certificates.roots
    others = [root for root in mounted if root.name not in there]
    return tuple(sorted([*found, *others], key=lambda root: root.begins))


def _signer(mounted: CertificatesView | None, kept: tuple[Root, ...], signers: list[Root], now: float) -> str | None:
    """Name the authority that signs a new certificate; None while the present one is good.

    The best signer is one that all workers already trust. If there is none, a younger authority
    signs: that is better than no certificate.
    """
    leaf = None if mounted is None else mounted.leaf
    good = leaf is not None and now < leaf.ends and leaf.issuer in {root.name for root in kept}
    if good and leaf is not None and not _is_due(leaf.begins, leaf.ends, now):
        return None
    old = [root for root in signers if now >= root.begins + SKEW_S + KNOWN_AFTER_S]
    if old:
        return old[-1].name
    return None if good else (signers[0].name if signers else NEWEST)


def _is_due(begins: float, ends: float, now: float) -> bool:
    """Say whether two thirds of a lifetime have passed."""
    return now >= begins + SKEW_S + (ends - begins - SKEW_S) * 2 / 3


# --- Lines ------------------------------------------------------------------------------------


def trust_line_of(seen: Observed, secret: str) -> int:
    """Return the trust line of a Secret: its present one, or a new one when nothing is left."""
    view = (seen.trust or {}).get(secret, TrustView())
    if _is_foreign(seen, secret):
        return _line_of_set(seen)
    if view.authority is not None:
        return view.authority.line
    if view.certificates is not None:
        return view.certificates.line
    return _line_of_set(seen) + (1 if _both_lost(seen, view) else 0)


def trust_line_to_start(seen: Observed) -> int:
    """Return the trust line of workers that start now."""
    return max((trust_line_of(seen, secret) for secret in seen.trust or {}), default=_line_of_set(seen))


def certificates_lost(seen: Observed, target: Target) -> bool:
    """Say whether the running workers have an older trust line than new ones would have.

    New workers could not connect to them. Workers of another spec do not count: they are replaced
    anyway, and may never have had certificates.
    """
    at = seen.stateful_set
    if seen.trust is None or at is None or not target.spec.security.mtls:
        return False
    return at.digest == target.digest and trust_line_to_start(seen) > _line_of_set(seen)


def warn_of_lost_certificates(seen: Observed, target: Target | None, builder: DecisionBuilder) -> None:
    """Add the event that explains a restart caused by lost certificates."""
    if target is not None and certificates_lost(seen, target):
        builder.tell(LOST, lost_certificates_message(seen), warning=True)


def lost_certificates_message(seen: Observed) -> str:
    """Explain why the workers are restarted."""
    lost = ", ".join(
        f"{secret} and {names.authority_name(secret)}"
        for secret, view in sorted((seen.trust or {}).items())
        if trust_line_of(seen, secret) > _line_of_set(seen)
    )
    return (
        f"the Secrets {lost} were lost, both at once: no new certificate can be signed that the "
        "running workers trust, so all workers restart from the last checkpoint with new ones"
    )


def _line_of_set(seen: Observed) -> int:
    return 1 if seen.stateful_set is None else max(1, seen.stateful_set.line)


def _both_lost(seen: Observed, view: TrustView) -> bool:
    at = seen.stateful_set
    runs = bool(seen.pods) or (at is not None and at.replicas > 0)
    return view.authority is None and view.certificates is None and runs


def _renewal_message(view: TrustView) -> str:
    if view.certificates is None:
        return "was lost, and was created again by the same authority: running workers trust it"
    if view.authority is None:
        return "the key of its authority was lost: a new authority is trusted beside the old one"
    return "renewed; running workers load it without a restart"
