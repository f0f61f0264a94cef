"""Every order of events in small models: 50,000 distinct states in every test run."""

import pytest

from sim.models.admission_model import AdmissionModel
from sim.models.checkpoint_model import CheckpointModel
from sim.models.search import search

pytestmark = pytest.mark.timeout(1200)  # a busy machine takes its time

STATES = 50_000


def test_no_order_of_events_breaks_a_small_world() -> None:
    found = search(CheckpointModel(), STATES)
    assert found.states >= STATES or found.exhausted
    assert found.broad > STATES // 20, "all short histories were followed"
    assert found.ends > 10, "some histories were followed to their end"


def test_no_order_of_resets_and_dials_lets_a_wrong_stream_in() -> None:
    found = search(AdmissionModel(), STATES)
    assert found.exhausted
    assert found.ends > 0, "some histories were followed to their end"
