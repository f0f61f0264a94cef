"""The Secrets of a job are written from what is read just before, and never from foreign ones."""

import asyncio

import pytest

from penstock.base.values import replace
from penstock.contract import pod
from penstock.kubernetes.answers import ApiError
from penstock_operator.api.names import authority_name
from penstock_operator.api.plain import Object
from penstock_operator.cluster.perform import ActionRunner, Events
from penstock_operator.cluster.store import ForeignObjects, Store
from penstock_operator.cluster.trust import files_of
from penstock_operator.reconcile.actions import Decision, WriteAuthority, WriteCertificates
from tests.support.certificates import secrets_of
from tests.unit.operator.api_fake import CORE, FakeApi
from tests.unit.operator.observing import NOW_S, OWNER, running, spec_of

SECRET = pod.trust_name("wc")
MOUNTED, AUTHORITY = f"{CORE}/secrets/{SECRET}", f"{CORE}/secrets/{authority_name(SECRET)}"
BEGIN = WriteAuthority(SECRET, "", 1, (), (), grow=True)
SIGN = WriteCertificates(SECRET, "", 1, "")


def write(api: FakeApi, *actions: WriteAuthority | WriteCertificates) -> None:
    def clock() -> float:
        return 0.0

    foreign = ForeignObjects(clock)
    runner = ActionRunner(api, Store(clock), foreign, Events(api))
    asyncio.run(runner.do(running(spec_of()), Decision(actions, None)))


def key_in(api: FakeApi, path: str) -> bytes:
    return files_of(api.objects[path]).files[pod.WORKER_KEY]


def test_both_are_made_and_have_one_key() -> None:
    api = FakeApi()
    write(api, BEGIN, SIGN)
    assert key_in(api, MOUNTED) == key_in(api, AUTHORITY)


def others(job_uid: str) -> tuple[Object, Object]:
    return secrets_of(replace(OWNER, uid=job_uid), SECRET, NOW_S)


@pytest.mark.parametrize("path", [MOUNTED, AUTHORITY])
def test_nothing_is_made_from_a_secret_that_somebody_made_since_we_looked(path: str) -> None:
    api = FakeApi()
    mounted, authority = others("their-uid")
    theirs = api.put(path, mounted if path == MOUNTED else authority)
    action = BEGIN if path == MOUNTED else SIGN
    with pytest.raises(ApiError) as told:
        write(api, action)
    assert told.value.conflict
    assert api.objects == {path: theirs}


def test_a_secret_that_has_changed_since_we_looked_is_not_overwritten() -> None:
    api = FakeApi()
    mounted, authority = others(OWNER.uid)
    api.put(MOUNTED, mounted)
    api.put(AUTHORITY, authority)
    before = dict(api.objects)
    with pytest.raises(ApiError) as told:
        write(api, replace(SIGN, version="1"))
    assert told.value.conflict
    assert api.objects == before
