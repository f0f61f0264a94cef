"""The certificates of one job: two Secrets, each with its own authorities, leaf and key.

One Secret is for the keepers, one for the engines. User code runs in engines, so keepers trust
nothing in the engines' Secret. A StatefulSet mounts the same Secrets into all its pods, so all
workers share the leaves. A token, made with the worker key, identifies a worker. Senders of pushed
input have their own leaf and no key for tokens: only the workers' ingest port accepts them.

Each of the two Secrets has another one beside it, ``{secret}-ca``, with the keys of the
authorities. No pod mounts it. ``reconcile.certificates`` decides what the Secrets contain; they are
made here.
"""

import base64
import binascii
import datetime
import secrets
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.contract import pod
from penstock_operator.api import names
from penstock_operator.api.plain import Object, text_at, texts_at
from penstock_operator.api.views import SUMMARY
from penstock_operator.reconcile.actions import WriteAuthority, WriteCertificates
from penstock_operator.reconcile.certificates import AUTHORITY_LIFE_S, LEAF_LIFE_S, SKEW_S
from penstock_operator.resources.target import Owner, framed

WORKER_KEY_BYTES = 32
NAME_CHARS = 16  # of the digest that is the name of an authority
CERTIFICATE, KEY = ".crt", ".key"  # suffixes of the files of an authority, after its name
SERVER_AUTH, CLIENT_AUTH = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


# --- What is read -----------------------------------------------------------------------------


@dataclass(slots=True)
class Files:
    """The readable contents of a Secret with certificates.

    ``roots`` and ``keys`` are PEM texts by the names of authorities.
    """

    files: dict[str, bytes]
    roots: dict[str, bytes] = field(default_factory=dict)
    keys: dict[str, bytes] = field(default_factory=dict)


def files_of(secret: Object | None) -> Files:
    """Read either kind of Secret."""
    found = Files({name: _decoded(text) for name, text in texts_at(secret, "data").items()})
    for name, data in found.files.items():
        if name == pod.CA_KEY or (name.endswith(CERTIFICATE) and name.count(".") == 1):
            for root in _certificates(data):
                shown = _authority_key(root)
                if shown is not None:
                    found.roots[_name_of(shown)] = _pem_of(root)
    for name in found.roots:
        key = found.files.get(name + KEY, b"")
        if _fits(key, found.roots[name]):
            found.keys[name] = key
    return found


def summary_of(secret: Object) -> Object:
    """Return the Secret with a summary instead of its data, so that no key is kept in memory.

    :func:`penstock_operator.api.views.trust_view` reads the summary.
    """
    found = files_of(secret)
    roots = [(name, x509.load_pem_x509_certificate(pem)) for name, pem in found.roots.items()]
    shown: Object = {
        "roots": [
            {"name": name, **_times(root), "signs": name in found.keys}
            for name, root in sorted(roots, key=lambda r: r[1].not_valid_before_utc)
        ]
    }
    leaf = _certificates(found.files.get(pod.CERTIFICATE_KEY, b""))[:1]
    if leaf and _is_whole(found.files):
        shown["leaf"] = {"issuer": _issuer_of(leaf[0]), **_times(leaf[0])}
    return {k: v for k, v in secret.items() if k not in {"data", "stringData"}} | {SUMMARY: shown}


def _is_whole(files: dict[str, bytes]) -> bool:
    """Say whether keys and certificates match; one of the two Secrets has the senders' too."""
    pairs = [(pod.PRIVATE_KEY, pod.CERTIFICATE_KEY)]
    of_senders = (pod.SENDER_PRIVATE_KEY, pod.SENDER_CERTIFICATE_KEY)
    if files.keys() & set(of_senders):
        pairs.append(of_senders)
    fit = all(_fits(files.get(key, b""), files.get(certificate, b"")) for key, certificate in pairs)
    return fit and len(files.get(pod.WORKER_KEY, b"")) >= WORKER_KEY_BYTES


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _certificates(data: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        return []


def _authority_key(found: x509.Certificate) -> ec.EllipticCurvePublicKey | None:
    """Return the key of an authority of our kind; None for anything else."""
    try:
        is_one = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        key = found.public_key()
    except (x509.ExtensionNotFound, ValueError, UnsupportedAlgorithm):
        return None
    return key if is_one and isinstance(key, ec.EllipticCurvePublicKey) else None


def _name_of(key: ec.EllipticCurvePublicKey) -> str:
    return x509.SubjectKeyIdentifier.from_public_key(key).digest.hex()[:NAME_CHARS]


def _issuer_of(leaf: x509.Certificate) -> str:
    try:
        found = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    except (x509.ExtensionNotFound, ValueError):
        return ""
    return (found.key_identifier or b"").hex()[:NAME_CHARS]


def _times(found: x509.Certificate) -> Object:
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    return {"begins": begins.timestamp(), "ends": ends.timestamp()}


def _fits(key: bytes, certificate: bytes) -> bool:
    try:
        loaded = serialization.load_pem_private_key(key, None)
        shown = x509.load_pem_x509_certificate(certificate).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return bool(loaded.public_key() == shown)


# --- What is written --------------------------------------------------------------------------


def authority_secret(owner: Owner, step: WriteAuthority, old: Files, mounted: Files, now_s: float) -> Object:
    """Make ``{secret}-ca`` from its present contents and those of the Secret that workers mount.

    Raises LookupError when neither has an authority that has to be kept.
    """
    roots = {**mounted.roots, **old.roots}
    files: dict[str, bytes] = {}
    for name in step.keep:
        files[name + CERTIFICATE] = roots[name]
        if name in step.signing:
            files[name + KEY] = old.keys[name]
    if step.grow:
        root, key = _new_authority(_time(now_s))
        name = _name_of(key.public_key())
        files |= {name + CERTIFICATE: _pem_of(root), name + KEY: _pem(key)}
    found = old.files.get(pod.WORKER_KEY) or mounted.files.get(pod.WORKER_KEY)
    files[pod.WORKER_KEY] = found or secrets.token_bytes(WORKER_KEY_BYTES)
    name = names.authority_name(step.secret)
    return _secret(owner, name, step.line, files, kind="Opaque")


def certificates_secret(owner: Owner, step: WriteCertificates, authority: Files, old: Files, now_s: float) -> Object:
    """Make the Secret that workers mount, from ``{secret}-ca``.

    Raises LookupError when the workers' key or the signer's key is missing.
    """
    ages = {n: x509.load_pem_x509_certificate(p) for n, p in authority.roots.items()}
    order = sorted(ages, key=lambda name: ages[name].not_valid_before_utc)
    files = {
        pod.CA_KEY: b"".join(authority.roots[name] for name in order),
        pod.WORKER_KEY: authority.files[pod.WORKER_KEY],
    }
    if step.signer is None:
        kept = (*pod.WORKER_FILES, pod.SENDER_CERTIFICATE_KEY, pod.SENDER_PRIVATE_KEY)
        files = {name: old.files[name] for name in kept if name in old.files} | files
    else:
        signer = step.signer or [name for name in order if name in authority.keys][-1]
        files |= _leaves(owner, step.secret, (ages[signer], authority.keys[signer]), now_s)
    return _secret(owner, step.secret, step.line, files, kind="kubernetes.io/tls")


def _leaves(owner: Owner, secret: str, signer: tuple[x509.Certificate, bytes], now_s: float) -> dict[str, bytes]:
    now, (root, pem) = _time(now_s), signer
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey), "all that we make are"
    ends = min(now + datetime.timedelta(seconds=LEAF_LIFE_S), root.not_valid_after_utc)
    issuer = _Issuer(root.subject, key, now, ends)
    host = pod.certificate_host(owner.name, owner.namespace)
    own = _key()
    leaf = _leaf(host, own, issuer, [SERVER_AUTH, CLIENT_AUTH])
    files = {pod.CERTIFICATE_KEY: _pem_of(leaf), pod.PRIVATE_KEY: _pem(own)}
    if secret == pod.trust_name(owner.name):
        sender_key = _key()
        sender = _leaf(f"sender.{host}", sender_key, issuer, [CLIENT_AUTH])
        files[pod.SENDER_CERTIFICATE_KEY] = _pem_of(sender)
        files[pod.SENDER_PRIVATE_KEY] = _pem(sender_key)
    return files


def _secret(owner: Owner, name: str, line: int, files: dict[str, bytes], *, kind: str) -> Object:
    marks = {names.ANNOTATION_LINE: str(line)}
    leaf = _certificates(files.get(pod.CERTIFICATE_KEY, b""))[:1]
    if leaf:
        marks[names.ANNOTATION_NOT_AFTER] = str(int(leaf[0].not_valid_after_utc.timestamp()))
    frame = framed("v1", "Secret", owner, name, annotations=marks)
    data: Object = {key: base64.b64encode(file).decode() for key, file in files.items()}
    return {**frame, "type": kind, "data": data}


def version_of(secret: Object | None) -> str:
    """Return the version that a write is based on; empty when the Secret does not exist."""
    return text_at(secret, "metadata", "resourceVersion")


# --- Certificates -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Issuer:
    """The signer of a certificate, and its lifetime."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    now: datetime.datetime
    ends: datetime.datetime


def _new_authority(
    now: datetime.datetime,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    # Anybody who connects to a worker sees this name before authentication: it reveals nothing.
    common = f"penstock {secrets.token_hex(8)}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    key = _key()
    ends = now + datetime.timedelta(seconds=AUTHORITY_LIFE_S)
    return _authority(_Issuer(name, key, now, ends)), key


def _time(now_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(now_s, datetime.UTC)


def _pem_of(found: x509.Certificate) -> bytes:
    return found.public_bytes(serialization.Encoding.PEM)


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _authority(issuer: _Issuer) -> x509.Certificate:
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(issuer.name, issuer.key, issuer)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(_identifier(issuer.key), critical=False)
        .sign(issuer.key, hashes.SHA256())
    )


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _leaf(
    host: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: _Issuer,
    uses: list[x509.ObjectIdentifier],
) -> x509.Certificate:
    """Sign a certificate for both ends of connections between workers."""
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
    # A common name has at most 64 characters. The host, which is what counts, may be longer.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    return (
        _builder(name, key, issuer)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(identifier, critical=False)
        .sign(issuer.key, hashes.SHA256())
    )


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey, issuer: _Issuer) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issuer.now - datetime.timedelta(seconds=SKEW_S))
        .not_valid_after(issuer.ends)
    )
