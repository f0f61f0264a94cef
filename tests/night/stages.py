"""The stages of the night: what is run, how often, and in which pieces."""

from dataclasses import dataclass
from pathlib import Path

from sim.real_engine.scenarios import SCENARIOS
from tests.support.long_tests import files

LONG_FILES = files()
MIXED = "chaos,chaos-window,chaos-diamond,aimed,aimed-window,storm,storm-window,churn,churn-window,chaos-empty"
MIXED_SCENARIOS = MIXED.count(",") + 1
EVERY_EFFECT = (
    "checkpoint",
    "rescale-up",
    "rescale-down",
    "restore-older",
    "stop-and-go",
    "drained",
    "worker-gone",
    "restore-elsewhere",
    "two-copiers",
    "around",
    "around-window",
    "changed-plan",
)

SHARES = 10  # no multiple of 3, the number of ways to fail, so that each share has all of them
REAL_EVERY_EFFECT = ("checkpoint", "rescale-up", "pushed", "tally", "tally-up")
REAL_ENGINE = tuple(name for name in SCENARIOS if name not in {"quiet", *REAL_EVERY_EFFECT})


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of test. Piece ``n`` runs ``command`` with the numbers ``n * each`` to ``(n + 1) * each - 1``.

    ``goal`` counts ``unit``, and a piece does ``done_by_piece`` of them. ``{first}``, ``{last}``, ``{each}``,
    ``{piece}``, ``{out}`` and ``{processes}`` in the command are replaced. A piece fails if its exit code is not
    0. ``timed``: how long something takes is a result of it, or it waits for processes with a deadline.
    ``in_cluster``: it needs the cluster of ``make cluster-up``, and tests the images that are in it.
    """

    name: str
    unit: str
    goal: int
    each: int
    command: str
    done_by_piece: int
    expected_s: float  # of one piece on two quiet cores, for the estimate that is printed first
    timed: bool = False
    in_cluster: bool = False

    def pieces(self) -> int:
        """Return how many pieces make the goal."""
        return -(-self.goal // self.done_by_piece)

    def words(self, piece: int, out: Path, processes: int) -> list[str]:
        """Return the command of one piece, without the interpreter."""
        first = piece * self.each
        numbers = {"first": first, "last": first + self.each - 1, "each": self.each, "piece": piece}
        return self.command.format(**numbers, out=out, processes=processes).split()

    def shown(self, piece: int) -> str:
        """Return the command as a person types it."""
        return " ".join(self.words(piece, Path("build/night/bench"), 2))


@dataclass(frozen=True, slots=True)
class Revisions:
    """What is under test: this tree, and the images in the cluster. It is empty without a cluster."""

    here: str
    in_cluster: str = ""

    def of(self, stage: Stage) -> str:
        """Return the revision that a stage tests. It is empty if the stage cannot run here."""
        return self.in_cluster if stage.in_cluster else self.here


IN_CLUSTER = "-m pytest -s -q -p no:xdist -p no:cacheprovider e2e/night.py::"
STAGES = (
    Stage(
        "simulation",
        "seeds with mixed faults",
        goal=100_000,
        each=50,
        command=f"-m sim --scenario {MIXED} --seeds {{first}}..{{last}} --processes {{processes}}",
        done_by_piece=50 * MIXED_SCENARIOS,
        expected_s=75,
    ),
    *(
        Stage(
            f"every-effect-{name}",
            "tenths of the runs with a fault at one effect, three ways",
            goal=SHARES,
            each=1,
            command=f"-m sim --scenario {name} --every-crash --share {{piece}}/{SHARES} --processes {{processes}}",
            done_by_piece=1,
            expected_s=90,
        )
        for name in EVERY_EFFECT
    ),
    *(
        Stage(
            f"real-engine-{name}",
            "seeds of the engine that ships",
            goal=3_000,
            each=50,
            command=f"-m sim.real_engine --scenario {name} --seeds {{first}}..{{last}} --processes {{processes}}",
            done_by_piece=50,
            expected_s=60,
        )
        for name in REAL_ENGINE
    ),
    *(
        Stage(
            f"real-engine-every-effect-{name}",
            "tenths of the runs of the engine that ships with a fault at one effect, three ways",
            goal=SHARES,
            each=1,
            command=f"-m sim.real_engine --scenario {name} --every-crash --share {{piece}}/{SHARES} "
            "--processes {processes}",
            done_by_piece=1,
            expected_s=150,
        )
        for name in REAL_EVERY_EFFECT
    ),
    Stage(
        "long-tests",
        "files of tests with their long counts",
        goal=len(LONG_FILES),
        each=1,
        command="-m tests.support.long_tests --piece {piece}",
        done_by_piece=1,
        expected_s=900,
    ),
    Stage(
        "drawn-examples",
        "runs of the property tests, each with other examples",
        goal=20,
        each=1,
        command="-m pytest -q -n {processes} -p no:cacheprovider --hypothesis-profile drawn tests/property",
        done_by_piece=1,
        expected_s=600,
    ),
    Stage(
        "real-processes",
        "kills, pauses and rescales of real processes",
        goal=400,
        each=1,
        command="-m tests.night.real_faults --seed {piece}",
        done_by_piece=10,
        expected_s=90,
        timed=True,
    ),
    Stage(
        "messages",
        "altered messages of Arrow",
        goal=1_000_000,
        each=50_000,
        command="-m tests.fuzz --first {first} --messages {each}",
        done_by_piece=50_000,
        expected_s=120,
    ),
    Stage(
        "stalled-sink",
        "minutes with a sink that takes nothing",
        goal=10,
        each=1,
        command="-m bench.run 4-stalled-sink --set seconds=630 --set stall_for=600 --out {out}",
        done_by_piece=10,
        expected_s=660,
        timed=True,
    ),
    Stage(
        "poison",
        "records that kill their process",
        goal=30,
        each=1,
        command="-m pytest -q -p no:cacheprovider tests/integration/test_poison.py",
        done_by_piece=3,
        expected_s=60,
        timed=True,
    ),
    Stage(
        "operator",
        "seeds of the operator's world",
        goal=2_000,
        each=100,
        command="-m sim.operator_world --seeds {first}..{last} --steps 60",
        done_by_piece=100,
        expected_s=60,
    ),
    Stage(
        "pods-lost",
        "pods of workers and leaders deleted or killed, in a cluster",
        goal=50,
        each=1,
        command=IN_CLUSTER + "test_pods_are_lost[{piece}-wordcount0]",
        done_by_piece=5,
        expected_s=180,
        timed=True,
        in_cluster=True,
    ),
    Stage(
        "nodes-lost",
        "nodes without power, in a cluster",
        goal=5,
        each=1,
        command=IN_CLUSTER + "test_a_node_is_lost[{piece}-wordcount0]",
        done_by_piece=1,
        expected_s=240,
        timed=True,
        in_cluster=True,
    ),
    Stage(
        "api-server-away",
        "minutes without an API server, in a cluster",
        goal=30,
        each=1,
        command=IN_CLUSTER + "test_the_api_server_is_away[30-wordcount0]",
        done_by_piece=30,
        expected_s=1_950,
        timed=True,
        in_cluster=True,
    ),
    Stage(
        "volume-full",
        "times a full volume, in a cluster",
        goal=5,
        each=1,
        command=IN_CLUSTER + "test_a_volume_is_full[wordcount0]",
        done_by_piece=5,
        expected_s=240,
        timed=True,
        in_cluster=True,
    ),
)
