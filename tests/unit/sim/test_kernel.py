from sim.kernel.faults import CrashAt, Faults, Rates, Verdict, parse_crash
from sim.kernel.kernel import SECOND, SimCrash, SimKernel


class Recorder:
    def __init__(self, kernel: SimKernel) -> None:
        self.kernel = kernel
        self.seen: list[object] = []
        self.clocks: list[float] = []

    def handle(self, event: object, now: float) -> None:
        self.seen.append(event)
        self.clocks.append(now)
        if event == "die":
            raise SimCrash


def make(seed: int = 0) -> tuple[SimKernel, Recorder]:
    def crashed(name: str) -> None:
        kernel.kill(name)

    kernel = SimKernel(seed, crashed)
    node = Recorder(kernel)
    kernel.add("n", node)
    return kernel, node


def test_ties_are_broken_by_the_seed_and_only_by_it() -> None:
    def order(seed: int) -> list[object]:
        kernel, node = make(seed)
        for i in range(8):
            kernel.at(10, "n", i)
        kernel.run(100)
        return node.seen

    assert order(1) == order(1)
    assert len({tuple(order(s)) for s in range(10)}) > 1


def test_a_lane_keeps_its_order() -> None:
    kernel, node = make()
    for i in range(20):
        kernel.at(100 - i, "n", i, lane="stream")
    kernel.run(1000)
    assert node.seen == list(range(20))


def test_events_of_a_life_die_with_it() -> None:
    kernel, node = make()
    kernel.at(10, "n", "old")
    kernel.kill("n")
    kernel.at(10, "n", "to the dead")
    kernel.add("n", node)
    kernel.at(20, "n", "new")
    kernel.run(100)
    assert node.seen == ["new"]
    assert kernel.life("n") == 2


def test_a_crash_in_a_handler_ends_the_node() -> None:
    kernel, node = make()
    kernel.at(10, "n", "die")
    kernel.at(20, "n", "after")
    kernel.run(100)
    assert node.seen == ["die"]
    assert not kernel.alive("n")


def test_a_pause_delays_and_loses_nothing() -> None:
    kernel, node = make()
    kernel.pause("n")
    kernel.at(10, "n", 1, lane="socket")
    kernel.at(20, "n", 2, lane="socket")
    kernel.run(50)
    assert node.seen == []
    kernel.resume("n")
    kernel.at(5, "n", 3)
    kernel.run(100)
    assert node.seen == [1, 2, 3]


def test_a_process_that_goes_on_reads_its_sockets_in_any_order() -> None:
    seen = set()
    for seed in range(20):
        kernel, node = make(seed)
        kernel.pause("n")
        for at, (socket, text) in enumerate([("a", "a1"), ("a", "a2"), ("b", "b1")]):
            kernel.at(at, "n", text, lane=socket)
        kernel.run(10)
        kernel.resume("n")
        kernel.run(20)
        seen.add(tuple(node.seen))
    assert seen == {("a1", "a2", "b1"), ("a1", "b1", "a2"), ("b1", "a1", "a2")}


def test_the_listener_is_told_how_often_a_state_was_counted() -> None:
    kernel, _ = make()
    heard: list[tuple[str, int]] = []
    kernel.listener = lambda what, count: heard.append((what, count))
    for what in ("commit", "crash", "commit"):
        kernel.happened(what)
    assert heard == [("commit", 1), ("crash", 1), ("commit", 2)]


def test_a_clock_has_its_own_offset_and_rate() -> None:
    kernel, _ = make()
    fast = Recorder(kernel)
    kernel.add("fast", fast, offset_us=3 * SECOND, rate=2.0)
    kernel.at(kernel.until_clock("fast", 5.0), "fast", "now")
    kernel.run(10 * SECOND)
    assert 5.0 <= fast.clocks[0] < 5.001
    assert kernel.until_clock("fast", 1.0) == 0, "the past is now"


def test_the_trace_tells_two_runs_apart() -> None:
    def trace(events: list[str]) -> str:
        kernel, _ = make()
        for text in events:
            kernel.at(10, "n", text)
            kernel.run(kernel.now_us + 20)
        return kernel.trace_hash()

    assert trace(["a", "b"]) == trace(["x", "y"]), "kinds of events, not their texts"
    assert trace(["a", "b"]) != trace(["a"])


def test_one_fault_strikes_one_effect() -> None:
    kernel, _ = make()
    faults = Faults(kernel.streams.faults, single=parse_crash("2:before"))
    verdicts = [faults.verdict("send") for _ in range(5)]
    assert verdicts == [Verdict.DONE] * 2 + [Verdict.CRASH_BEFORE] + [Verdict.DONE] * 2
    assert faults.single == CrashAt(2, Verdict.CRASH_BEFORE)
    assert faults.injected == {"send:before": 1}


def test_rates_hold_roughly_and_stop_when_quiet() -> None:
    kernel, _ = make()
    faults = Faults(kernel.streams.faults, {"swap": Rates(0.2, 0.2, 0.2)})
    drawn = [faults.verdict("swap") for _ in range(2000)]
    assert set(drawn) == set(Verdict)
    assert 600 < drawn.count(Verdict.DONE) < 1000
    assert faults.verdict("other") is Verdict.DONE
    faults.quiet = True
    assert {faults.verdict("swap") for _ in range(50)} == {Verdict.DONE}
