"""The Secret of a job: what its files are good for."""

import base64

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from penstock.contract import pod
from penstock_operator.api.plain import object_at
from penstock_operator.cluster.trust import trust_secret
from tests.unit.operator.observing import spec_of, target_for

OWNER = target_for(spec_of()).owner
NOW_S = 1_800_000_000.0


def test_a_sender_can_be_no_server_and_has_no_key_for_tokens() -> None:
    secret = trust_secret(OWNER, NOW_S)
    data = object_at(secret, "data")
    texts = {name: base64.b64decode(str(text)) for name, text in data.items()}
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
    first, second = trust_secret(OWNER, NOW_S), trust_secret(OWNER, NOW_S)
    assert object_at(first, "data")[pod.CA_KEY] != object_at(second, "data")[pod.CA_KEY]
