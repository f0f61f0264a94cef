"""The certificates of one job: two Secrets, each with an authority, a leaf and a key of its own.

One is of the keepers, one of the engines, in which user code runs: nothing in it is believed by a
keeper. A StatefulSet mounts the same Secrets into all its pods, so all workers share the leaves;
who a worker is says its token, made with the worker key. Senders of pushed input have a leaf of
their own, and no key for tokens: they are let in at the workers' ingest port and nowhere else.
Nobody keeps an authority's key: a new Secret has a new authority.
"""

import base64
import datetime
import secrets

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.contract import pod
from penstock_operator.api import names
from penstock_operator.api.plain import Object
from penstock_operator.resources.target import Owner, framed

LIFE = datetime.timedelta(days=5 * 365)
SKEW = datetime.timedelta(hours=1)  # between the clocks of nodes
WORKER_KEY_BYTES = 32
SERVER_AUTH, CLIENT_AUTH = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def trust_secret(owner: Owner, name: str, now_s: float) -> Object:
    """Make one of a job's two Secrets, the one of this ``name``. Every call makes another one.

    Its files are those that pod.py names.
    """
    now = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
    authority_key, leaf_key = _key(), _key()
    # Whoever dials a worker sees this name, before he has shown anything: it says nothing.
    common = f"penstock {secrets.token_hex(8)}"
    issuer_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    authority = _authority(issuer_name, authority_key, now)
    host = pod.certificate_host(owner.name, owner.namespace)
    issuer = (issuer_name, authority_key)
    leaf = _leaf(host, leaf_key, issuer, now, [SERVER_AUTH, CLIENT_AUTH])
    files = {
        pod.CA_KEY: authority.public_bytes(serialization.Encoding.PEM),
        pod.CERTIFICATE_KEY: leaf.public_bytes(serialization.Encoding.PEM),
        pod.PRIVATE_KEY: _pem(leaf_key),
        pod.WORKER_KEY: secrets.token_bytes(WORKER_KEY_BYTES),
    }
    if name == pod.trust_name(owner.name):
        sender_key = _key()
        sender = _leaf(f"sender.{host}", sender_key, issuer, now, [CLIENT_AUTH])
        files[pod.SENDER_CERTIFICATE_KEY] = sender.public_bytes(serialization.Encoding.PEM)
        files[pod.SENDER_PRIVATE_KEY] = _pem(sender_key)
    marks = {names.ANNOTATION_NOT_AFTER: str(int((now + LIFE).timestamp()))}
    frame = framed("v1", "Secret", owner, name, annotations=marks)
    data: Object = {key: base64.b64encode(file).decode() for key, file in files.items()}
    return {**frame, "type": "kubernetes.io/tls", "data": data}


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _authority(
    name: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime
) -> x509.Certificate:
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
        _builder(name, name, key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    host: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey],
    now: datetime.datetime,
    uses: list[x509.ObjectIdentifier],
) -> x509.Certificate:
    """Sign a certificate; both ends of a connection of workers show theirs."""
    issuer_name, issuer_key = issuer
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    # The common name has at most 64 characters; the host, which counts, may have more.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    return (
        _builder(name, issuer_name, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(identifier, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFE)
    )
