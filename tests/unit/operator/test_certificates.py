"""The Secrets of a job: what their files are good for."""

import base64

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID

from penstock.contract import pod
from penstock_operator.api.plain import object_at
from penstock_operator.cluster.trust import trust_secret
from tests.unit.operator.observing import spec_of, target_for

OWNER = target_for(spec_of()).owner
NOW_S = 1_800_000_000.0
ENGINES, KEEPERS = pod.secret_names(OWNER.name)


def files_of(name: str) -> dict[str, bytes]:
    data = object_at(trust_secret(OWNER, name, NOW_S), "data")
    return {key: base64.b64decode(str(text)) for key, text in data.items()}


def test_a_sender_can_be_no_server_and_has_no_key_for_tokens() -> None:
    texts = files_of(ENGINES)
    assert set(texts) == {
        pod.CA_KEY,
        pod.CERTIFICATE_KEY,
        pod.PRIVATE_KEY,
        pod.SENDER_CERTIFICATE_KEY,
        pod.SENDER_PRIVATE_KEY,
        pod.WORKER_KEY,
    }
    issuer = x509.load_pem_x509_certificate(texts[pod.CA_KEY])
    worker = x509.load_pem_x509_certificate(texts[pod.CERTIFICATE_KEY])
    sender = x509.load_pem_x509_certificate(texts[pod.SENDER_CERTIFICATE_KEY])
    for leaf in (worker, sender):
        leaf.verify_directly_issued_by(issuer)
    usage = sender.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    host = pod.certificate_host(OWNER.name, OWNER.namespace)
    names = sender.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [f"sender.{host}"]
    assert texts[pod.SENDER_PRIVATE_KEY] != texts[pod.PRIVATE_KEY]


def test_every_secret_has_an_authority_of_its_own() -> None:
    first, second = files_of(ENGINES), files_of(ENGINES)
    assert first[pod.CA_KEY] != second[pod.CA_KEY]


def test_keepers_have_a_secret_of_their_own_and_no_sender_is_in_it() -> None:
    keepers, engines = files_of(KEEPERS), files_of(ENGINES)
    assert set(keepers) == set(pod.WORKER_FILES)
    assert not set(keepers.values()) & set(engines.values())
    leaf = x509.load_pem_x509_certificate(keepers[pod.CERTIFICATE_KEY])
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(keepers[pod.CA_KEY]))
    with pytest.raises((ValueError, InvalidSignature)):
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(engines[pod.CA_KEY]))


def test_certificates_do_not_tell_the_uid_of_the_job() -> None:
    for name in pod.secret_names(OWNER.name):
        for key, data in files_of(name).items():
            if data.startswith(b"-----BEGIN CERTIFICATE"):
                found = x509.load_pem_x509_certificate(data)
                assert OWNER.uid not in f"{found.subject} {found.issuer} {found.extensions}", key
