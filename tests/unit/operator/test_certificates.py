"""The Secrets of a job: what connections their files allow."""

import base64
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID

from penstock.contract import pod
from penstock.contract.trust import Trust
from penstock_operator.api.plain import Object, object_at
from penstock_operator.api.views import trust_view
from penstock_operator.cluster.trust import (
    authority_secret,
    certificates_secret,
    files_of,
    summary_of,
)
from penstock_operator.reconcile.actions import WriteAuthority
from penstock_operator.reconcile.certificates import DAY_S, trust_steps
from tests.support.certificates import secrets_of
from tests.unit.operator.observing import spec_of, target_for

OWNER = target_for(spec_of()).owner
NOW_S = 1_800_000_000.0
ENGINES, KEEPERS = pod.secret_names(OWNER.name)


def made(name: str) -> dict[str, bytes]:
    data = object_at(secrets_of(OWNER, name, NOW_S)[0], "data")
    return {key: base64.b64decode(str(text)) for key, text in data.items()}


def test_a_sender_can_be_no_server_and_has_no_key_for_tokens() -> None:
    texts = made(ENGINES)
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
    first, second = made(ENGINES), made(ENGINES)
    assert first[pod.CA_KEY] != second[pod.CA_KEY]


def test_keepers_have_a_secret_of_their_own_and_no_sender_is_in_it() -> None:
    keepers, engines = made(KEEPERS), made(ENGINES)
    assert set(keepers) == set(pod.WORKER_FILES)
    assert not set(keepers.values()) & set(engines.values())
    leaf = x509.load_pem_x509_certificate(keepers[pod.CERTIFICATE_KEY])
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(keepers[pod.CA_KEY]))
    with pytest.raises((ValueError, InvalidSignature)):
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(engines[pod.CA_KEY]))


def test_certificates_do_not_tell_the_uid_of_the_job() -> None:
    for name in pod.secret_names(OWNER.name):
        for key, data in made(name).items():
            if data.startswith(b"-----BEGIN CERTIFICATE"):
                found = x509.load_pem_x509_certificate(data)
                assert OWNER.uid not in f"{found.subject} {found.issuer} {found.extensions}", key


# --- Renewals, with real keys -----------------------------------------------------------------


def version(secret: Object, number: int) -> Object:
    return {**secret, "metadata": {**object_at(secret, "metadata"), "resourceVersion": str(number)}}


def reconciled(mounted: Object | None, above: Object | None, now_s: float) -> tuple[Object, Object, list[str]]:
    """Perform what is decided about both Secrets at ``now_s``, as the operator does."""
    view = trust_view(
        None if above is None else summary_of(above),
        None if mounted is None else summary_of(mounted),
    )
    done = []
    for step in trust_steps(ENGINES, view, 1, now_s):
        read = files_of(above), files_of(mounted)
        done.append(type(step).__name__)
        if isinstance(step, WriteAuthority):
            above = version(authority_secret(OWNER, step, *read, now_s), 1)
        else:
            mounted = version(certificates_secret(OWNER, step, *read, now_s), 1)
    assert mounted is not None
    assert above is not None
    return mounted, above, done


def trust_of(secret: Object) -> Trust:
    data = files_of(secret).files
    names = (pod.CA_KEY, pod.CERTIFICATE_KEY, pod.PRIVATE_KEY, pod.WORKER_KEY)
    return Trust("words", *(data[name] for name in names))


def verify(secret: Object) -> str:
    """Check every certificate of a Secret; return the authority that signed the workers'."""
    found = files_of(secret)
    leaf = x509.load_pem_x509_certificate(found.files[pod.CERTIFICATE_KEY])
    sender = x509.load_pem_x509_certificate(found.files[pod.SENDER_CERTIFICATE_KEY])
    signed = []
    for name, pem in found.roots.items():
        with suppress(ValueError, InvalidSignature):
            for each in (leaf, sender):
                each.verify_directly_issued_by(x509.load_pem_x509_certificate(pem))
            signed.append(name)
    (signer,) = signed
    return signer


def test_a_renewal_a_rotation_and_each_loss_are_understood_by_who_holds_what_was_before() -> None:
    mounted, above, done = reconciled(None, None, NOW_S)
    assert done == ["WriteAuthority", "WriteCertificates"]
    first = verify(mounted)
    assert pod.PRIVATE_KEY not in files_of(above).files
    assert reconciled(mounted, above, NOW_S + DAY_S)[2] == []

    renewed, above, done = reconciled(mounted, above, NOW_S + 61 * DAY_S)
    assert done == ["WriteCertificates"]
    assert verify(renewed) == first
    assert trust_of(renewed).certificate != trust_of(mounted).certificate
    assert trust_of(renewed).overlaps(trust_of(mounted))

    lost, above, done = reconciled(None, above, NOW_S + 62 * DAY_S)
    assert done == ["WriteCertificates"]
    assert verify(lost) == first
    assert trust_of(lost).overlaps(trust_of(renewed))

    rotating, above, done = reconciled(lost, None, NOW_S + 63 * DAY_S)
    assert done == ["WriteAuthority", "WriteCertificates"]
    assert verify(rotating) == first
    assert trust_of(rotating).certificate == trust_of(lost).certificate
    assert len(trust_of(rotating).authorities()) == 2
    assert trust_of(rotating).overlaps(trust_of(lost))

    rotated, above, _ = reconciled(rotating, above, NOW_S + 130 * DAY_S)
    assert verify(rotated) != first
    assert trust_of(rotated).overlaps(trust_of(rotating))

    anew, _, _ = reconciled(None, None, NOW_S)
    assert not trust_of(anew).overlaps(trust_of(rotated)), "with both, all that was known is lost"


@pytest.mark.parametrize("name", [pod.CERTIFICATE_KEY, pod.PRIVATE_KEY, pod.WORKER_KEY])
def test_a_secret_with_a_file_that_is_of_no_use_is_signed_anew(name: str) -> None:
    mounted, above, _ = reconciled(None, None, NOW_S)
    for data in ("", "bm9uc2Vuc2U=", "%%%"):
        broken = {**mounted, "data": {**object_at(mounted, "data"), name: data}}
        mended, _, done = reconciled(broken, above, NOW_S)
        assert done == ["WriteCertificates"]
        assert verify(mended) == verify(mounted)
        assert trust_of(mended).overlaps(trust_of(mounted))


def test_a_summary_has_no_key() -> None:
    mounted, above, _ = reconciled(None, None, NOW_S)
    for secret in (mounted, above):
        text = json.dumps(summary_of(secret))
        assert "PRIVATE" not in text
        for data in object_at(secret, "data").values():
            assert str(data) not in text


def edwards_authority() -> bytes:
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody's")])
    begins = datetime.fromtimestamp(NOW_S, UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    return made.sign(key, None).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("name", [pod.SENDER_CERTIFICATE_KEY, pod.SENDER_PRIVATE_KEY])
def test_a_broken_certificate_of_senders_is_signed_anew(name: str) -> None:
    mounted, above, _ = reconciled(None, None, NOW_S)
    data = dict(object_at(mounted, "data"))
    del data[name]
    mended, _, done = reconciled({**mounted, "data": data}, above, NOW_S)
    assert done == ["WriteCertificates"]
    assert name in object_at(mended, "data")


def test_an_authority_of_a_kind_that_we_do_not_make_is_left_out() -> None:
    mounted, above, _ = reconciled(None, None, NOW_S)
    files = files_of(mounted).files
    pem = files[pod.CA_KEY] + edwards_authority()
    more = {**object_at(mounted, "data"), pod.CA_KEY: base64.b64encode(pem).decode()}
    mixed = {**mounted, "data": more}
    assert summary_of(mixed)["trust"] == summary_of(mounted)["trust"]
    mended, _, done = reconciled(mixed, above, NOW_S)
    assert done == []
    assert verify(mended) == verify(mounted)
