import urllib.error
import urllib.request
from dataclasses import dataclass

import pytest
from prometheus_client.registry import CollectorRegistry

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract import pod
from penstock.keeper.platforms import Facts
from penstock.keeper.probes import Probes
from penstock.metrics.pages import Pages


@dataclass
class World:
    facts: Facts = Facts(turned_at=100.0, running=True, wanted=True)
    absent_s: float = 0.0
    now: float = 100.0

    def probes(self) -> Probes:
        return Probes(lambda: self.facts, lambda _: self.absent_s, lambda: self.now)


def test_a_slow_engine_is_not_a_dead_worker() -> None:
    world = World(Facts(turned_at=100.0, running=False, wanted=True))
    probes = world.probes()
    assert probes.live() is None
    assert probes.engine_live() is None
    assert probes.ready() == "the engine does not run the newest attempt yet"


def test_a_loop_that_stands_still_is_dead() -> None:
    world = World(now=131.0)
    assert world.probes().live() == "the loop stands still for 31 s"


def test_a_container_without_a_host_is_started_again_in_the_end() -> None:
    world = World(absent_s=59.0)
    assert world.probes().engine_live() is None
    world.absent_s = 61.0
    assert world.probes().engine_live() is not None
    assert world.probes().live() is None, "the keeper is well"


def test_a_worker_without_work_is_not_ready() -> None:
    world = World()
    assert world.probes().ready() is None
    world.facts = replace(world.facts, wanted=False)
    assert world.probes().ready() == "no engine is wanted here"


def fetch(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}") as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_pages_are_served() -> None:
    world = World(now=131.0)
    pages = Pages(("127.0.0.1", 0), CollectorRegistry(), pod.METRICS_PATH, world.probes().by_path())
    assert fetch(pages.address, pod.STARTUP_PATH) == (200, "ok\n")
    assert fetch(pages.address, pod.READY_PATH + "?verbose") == (200, "ok\n")
    assert fetch(pages.address, pod.LIVE_PATH) == (503, "the loop stands still for 31 s\n")
    assert fetch(pages.address, pod.METRICS_PATH) == (200, "")
    assert fetch(pages.address, "/../etc/passwd")[0] == 404
    host, _, port = pages.address.partition(":")
    with pytest.raises(ConfigError, match="cannot listen on"):
        Pages((host, int(port)), CollectorRegistry(), "/metrics", {})
    pages.close()
    Pages((host, int(port)), CollectorRegistry(), "/metrics", {}).close()
