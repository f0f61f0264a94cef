"""Whether a key is over is asked of the time that its own key group has reached."""

import pyarrow as pa

import penstock as ps
from penstock.keyed_state.hot import HotTable
from penstock.model.declared.state_types import StateType, state_type
from penstock.model.table_columns import NO_TIMER
from penstock.steps.keyed import KeyColumns
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.evolving_schema import evolving_schema
from penstock.steps.typed.lifetime import EXPIRES
from penstock.steps.typed.shared_states import SharedStates

GROUPS = 4


@ps.state(ttl="10us")
class Seen:
    n: int = 0


def test_a_group_that_came_from_a_task_further_on_does_not_let_keys_of_others_expire() -> None:
    state = state_type(Seen)
    assert isinstance(state, StateType)
    rows = pa.record_batch({"who": list("abcdefgh"), "at": pa.array([0] * 8, pa.timestamp("us"))})
    keys = KeyColumns(rows.schema, ["who"], GROUPS)
    states = SharedStates(state, (), GROUPS)
    states.table = HotTable(evolving_schema("seen", keys.fields, state, states.timers))
    found = states.rows_of(keys, rows)
    table = BoundTable(states.table, found)
    states.rows.bind(table)
    states.table.column(EXPIRES)[found] = 10
    groups = keys.codec.hashed(keys.of(rows))[1]
    gained = groups == groups[0]
    states.reached[:], states.reached[groups[0]] = 5, 50

    lives = states.lives(keys, rows, table, "at")
    assert lives is not None
    for record, row in enumerate(found.tolist()):
        states.log.begin()
        states.rows.at(row)
        lives.begin(record, row)
    assert ((states.table.column(EXPIRES)[found] == NO_TIMER) == gained).all()
    assert not gained.all()
