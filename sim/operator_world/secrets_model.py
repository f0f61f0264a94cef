"""What the Secrets of a job are after a write: authorities by numbers instead of keys."""

from penstock_operator.api import names
from penstock_operator.api.plain import Object, list_at, object_at, text_at
from penstock_operator.api.views import SUMMARY
from penstock_operator.reconcile.actions import WriteAuthority, WriteCertificates
from penstock_operator.reconcile.certificates import AUTHORITY_LIFE_S, LEAF_LIFE_S, SKEW_S


def written(
    step: WriteAuthority | WriteCertificates,
    mounted: Object | None,
    authority: Object | None,
    now: float,
) -> Object:
    """Return the Secret that a step writes: the workers' key, and a summary of the certificates."""
    if isinstance(step, WriteAuthority):
        return _authority(step, mounted, authority, now)
    assert authority is not None, "it is written first"
    roots = _roots(authority)
    leaf = object_at(mounted, SUMMARY, "leaf")
    if step.signer is not None:
        signers = [r for r in roots if r["signs"] and step.signer in {"", r["name"]}]
        if not signers:
            raise KeyError(step.signer)
        ends = min(now + LEAF_LIFE_S, float(str(signers[-1]["ends"])))
        leaf = {"issuer": signers[-1]["name"], "begins": now - SKEW_S, "ends": ends}
    believed: Object = {"roots": [{**r, "signs": False} for r in roots], "leaf": leaf}
    return _secret(step.secret, step.line, believed, text_at(authority, "key"))


def _authority(step: WriteAuthority, mounted: Object | None, authority: Object | None, now: float) -> Object:
    known = {text_at(r, "name"): r for r in [*_roots(mounted), *_roots(authority)]}
    kept = [{**known[name], "signs": name in step.signing and known[name]["signs"] is True} for name in step.keep]
    if step.grow:
        ends = now + AUTHORITY_LIFE_S
        kept.append({"name": f"r{now:.0f}", "begins": now - SKEW_S, "ends": ends, "signs": True})
    key = text_at(authority, "key") or text_at(mounted, "key") or f"key of {now:.0f}"
    return _secret(names.authority_name(step.secret), step.line, {"roots": [*kept]}, key)


def _roots(secret: Object | None) -> list[Object]:
    return [r for r in list_at(secret, SUMMARY, "roots") if isinstance(r, dict)]


def _secret(name: str, line: int, summary: Object, key: str) -> Object:
    marks: Object = {names.ANNOTATION_LINE: str(line)}
    return {
        "kind": "Secret",
        "metadata": {"name": name, "annotations": marks},
        SUMMARY: summary,
        "key": key,
    }
