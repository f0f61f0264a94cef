"""The checker of histories finds an order where there is one, and only there."""

from dataclasses import dataclass, field
from itertools import permutations
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from sim.checks.histories import (
    Outcome,
    ReadCall,
    RegisterCall,
    RegisterState,
    SwapCall,
    linearize,
)

FIRST = RegisterState("0", "a")


def read(begun: float, ended: float, version: str, label: str) -> ReadCall:
    return ReadCall("r", begun, ended, version, label)


def swap(begun: float, ended: float, expected: str, made: str, label: str) -> SwapCall:
    return SwapCall("s", begun, ended, expected, made, label, Outcome.DONE)


def conflict(begun: float, ended: float, expected: str) -> SwapCall:
    return SwapCall("s", begun, ended, expected, None, "lost", Outcome.CONFLICT)


def unknown(begun: float, expected: str, label: str) -> SwapCall:
    return SwapCall("s", begun, inf, expected, None, label, Outcome.UNKNOWN)


def is_linearizable(*history: RegisterCall) -> bool:
    return not linearize(FIRST, history).stuck


def test_an_empty_history_is_linearizable() -> None:
    assert is_linearizable()


def test_a_read_that_began_after_a_swap_must_see_it() -> None:
    assert is_linearizable(swap(1, 2, "0", "1", "b"), read(3, 4, "1", "b"))
    assert not is_linearizable(swap(1, 2, "0", "1", "b"), read(3, 4, "0", "a"))


def test_a_read_beside_a_swap_may_see_the_old_or_the_new_content() -> None:
    assert is_linearizable(swap(1, 4, "0", "1", "b"), read(2, 3, "0", "a"))
    assert is_linearizable(swap(1, 4, "0", "1", "b"), read(2, 3, "1", "b"))


def test_two_reads_cannot_go_back() -> None:
    assert not is_linearizable(swap(1, 9, "0", "1", "b"), read(2, 3, "1", "b"), read(4, 5, "0", "a"))


def test_one_version_is_replaced_once() -> None:
    assert not is_linearizable(swap(1, 9, "0", "1", "b"), swap(1, 9, "0", "2", "c"))
    assert is_linearizable(swap(1, 9, "0", "1", "b"), conflict(2, 9, "0"))


def test_a_conflict_needs_another_version() -> None:
    assert not is_linearizable(conflict(1, 2, "0"))
    assert not is_linearizable(conflict(1, 2, "0"), swap(3, 4, "0", "1", "b"))


def test_an_unknown_swap_may_be_applied_late_or_never() -> None:
    assert is_linearizable(unknown(1, "0", "b"), read(8, 9, "0", "a"))
    assert is_linearizable(unknown(1, "0", "b"), read(8, 9, "0", "a"), read(10, 11, "7", "b"))
    assert is_linearizable(unknown(1, "0", "b"), conflict(2, 3, "0"))
    assert not is_linearizable(unknown(4, "0", "b"), read(1, 2, "7", "b"))


def test_a_swap_may_begin_in_the_instant_in_which_its_caller_is_told_of_an_unknown_one() -> None:
    history = (unknown(1, "0", "b"), read(2, 3, "1", "b"), unknown(3, "1", "c"), read(4, 5, "1", "b"))
    assert is_linearizable(*history, read(6, 7, "2", "c"))


def test_an_unknown_swap_is_applied_once() -> None:
    history = (unknown(1, "0", "b"), read(2, 3, "1", "b"), swap(4, 5, "1", "2", "c"), read(6, 7, "3", "b"))
    assert not is_linearizable(*history)


def test_the_order_names_the_applied_swaps() -> None:
    one, two = swap(1, 2, "0", "1", "b"), unknown(3, "1", "c")
    assert linearize(FIRST, (two, one, read(5, 6, "2", "c"))).order == (one, two)


def test_the_calls_that_do_not_fit_are_named() -> None:
    stale = read(3, 4, "0", "a")
    assert linearize(FIRST, (swap(1, 2, "0", "1", "b"), stale)).stuck == (stale,)


# --- Against all orders -------------------------------------------------------------------------


def explained_by_some_order(history: list[RegisterCall]) -> bool:
    """Try every order of all calls, without and with each unknown swap."""
    told = [call for call in history if call.ended < inf]
    lost = [call for call in history if call.ended == inf]
    for chosen in range(1 << len(lost)):
        calls = [*told, *(call for n, call in enumerate(lost) if chosen >> n & 1)]
        if any(_explains(order) for order in permutations(calls)):
            return True
    return False


def _explains(order: tuple[RegisterCall, ...]) -> bool:
    state: RegisterState | None = FIRST
    for at, call in enumerate(order):
        if any(later.ended < call.begun for later in order[at:]):
            return False
        state = state.after(call) if state is not None else None
    return state is not None


@dataclass
class Store:
    """A register that makes a history: call ``number`` takes effect at the time ``4 * number``."""

    state: RegisterState = FIRST
    known: list[tuple[float, str]] = field(default_factory=lambda: [(-inf, "0")])  # since when, a version

    def call(self, data: st.DataObject, number: int) -> RegisterCall:
        at = 4 * number
        begun, ended = at - data.draw(st.integers(0, 9)), at + data.draw(st.integers(0, 9))
        kind = data.draw(st.sampled_from(["read", "swap", "unknown"]))
        if kind == "read":
            self.known.append((ended, self.state.version or ""))
            return read(begun, ended, self.state.version or "", str(self.state.label))
        expected = data.draw(st.sampled_from([v for since, v in self.known if since < begun]))
        if kind == "unknown" and not data.draw(st.booleans()):
            return unknown(begun, expected, f"l{number}")
        fits = expected == self.state.version
        if fits:
            self.state = RegisterState(str(number + 1), f"l{number}")
        if kind == "unknown":
            return unknown(begun, expected, f"l{number}")
        if not fits:
            return conflict(begun, ended, expected)
        self.known.append((ended, str(number + 1)))
        return swap(begun, ended, expected, str(number + 1), f"l{number}")


def with_a_lie(history: list[RegisterCall], data: st.DataObject) -> list[RegisterCall]:
    """Return the history with one reply that may be wrong."""
    at = data.draw(st.integers(0, len(history) - 1))
    told = history[at]
    if isinstance(told, ReadCall):
        reads = [call for call in history if isinstance(call, ReadCall)]
        other = data.draw(st.sampled_from(reads))
        told = read(told.begun, told.ended, other.version, str(other.label))
    elif told.outcome is Outcome.CONFLICT:
        told = swap(told.begun, told.ended, told.expected, "lie", "lie")
    elif told.outcome is Outcome.DONE:
        told = conflict(told.begun, told.ended, told.expected)
    return [*history[:at], told, *history[at + 1 :]]


@given(data=st.data())
def test_what_a_register_said_is_linearizable(data: st.DataObject) -> None:
    store = Store()
    assert is_linearizable(*(store.call(data, number) for number in range(data.draw(st.integers(1, 12)))))


@given(data=st.data())
def test_the_search_agrees_with_a_trial_of_all_orders(data: st.DataObject) -> None:
    store = Store()
    history = [store.call(data, number) for number in range(data.draw(st.integers(1, 5)))]
    history = with_a_lie(history, data)
    assert is_linearizable(*history) == explained_by_some_order(history)
