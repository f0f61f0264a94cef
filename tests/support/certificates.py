"""Certificates made in the test, as the operator makes them: an authority and one leaf per job."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.base.values import replace
from penstock.contract.trust import Trust
from penstock_operator.api.plain import Object
from penstock_operator.cluster.trust import authority_secret, certificates_secret, files_of
from penstock_operator.reconcile.actions import WriteAuthority, WriteCertificates
from penstock_operator.resources.target import Owner

# Far from any clock: certificates are compared with that of the machine.
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
SECRET = b"a job's own secret, of 32 bytes."


@dataclass(frozen=True)
class Authority:
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


@cache
def authority(name: str = "words") -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, LONG_AGO + timedelta(days=36500)).public_key(key.public_key())
    usage = x509.BasicConstraints(ca=True, path_length=0)
    signed = builder.issuer_name(_name(name)).add_extension(usage, critical=True)
    return Authority(name, key, signed.sign(key, hashes.SHA256()))


@dataclass
class Renewed:
    """A source of trust whose certificates the test renews, as the kubelet does a worker's."""

    now: Trust


def also_believing(shown: Trust, *others: Authority) -> Trust:
    """Return ``shown`` with further authorities behind its own, as in an overlap."""
    return replace(shown, ca=b"".join([shown.ca, *(other.pem for other in others)]))


def trust(
    host: str = "words.default.job.penstock.dev",
    by: Authority | None = None,
    *,
    checked_by: Authority | None = None,
    secret: bytes = SECRET,
    expired: bool = False,
) -> Trust:
    """A leaf for ``host``; ``checked_by`` is the authority that its holder believes."""
    issuer = by or authority()
    key = ec.generate_private_key(ec.SECP256R1())
    ends = LONG_AGO + timedelta(days=1 if expired else 36500)
    builder = _builder(host, ends).public_key(key.public_key()).issuer_name(_name(issuer.name))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), False)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), False)
    leaf = builder.sign(issuer.key, hashes.SHA256())
    return Trust(
        host,
        ca=(checked_by or issuer).pem,
        certificate=leaf.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        secret=secret,
    )


def secrets_of(owner: Owner, secret: str, now_s: float) -> tuple[Object, Object]:
    """What the operator makes for a new job: ``secret``, and the Secret with its authority."""
    nothing = files_of(None)
    begin = WriteAuthority(secret, "", 1, (), (), grow=True)
    above = authority_secret(owner, begin, nothing, nothing, now_s)
    sign = WriteCertificates(secret, "", 1, "")
    return certificates_secret(owner, sign, files_of(above), nothing, now_s), above


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: str, ends: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .serial_number(x509.random_serial_number())
        .not_valid_before(LONG_AGO)
        .not_valid_after(ends)
    )
