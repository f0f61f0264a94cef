"""A key and certificate for a server on 127.0.0.1, signed by itself."""

from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_identity(folder: Path) -> tuple[Path, Path]:
    """Write a PEM file with key and certificate, and one that clients trust. Returns both."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    authority = x509.BasicConstraints(ca=True, path_length=None)
    signed = builder.add_extension(address, critical=False).add_extension(authority, critical=True)
    pem = signed.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "identity.pem").write_bytes(secret + pem)
    (folder / "ca.pem").write_bytes(pem)
    return folder / "identity.pem", folder / "ca.pem"
