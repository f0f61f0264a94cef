"""An operator whose connections to the API server are cut, reset or held does what is wanted all the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import Start
from tests.integration.kubernetes.operator.objects import applied, play_controller, workers
from tests.support.long_tests import long_only
from tests.support.tcp_proxy import Link, TcpProxy


def everything(_: Link) -> bool:
    return True


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[TcpProxy]:
    made = TcpProxy(tmp_path / "proxy")
    yield made
    made.close()


def kubeconfig(folder: Path, port: int) -> Path:
    """Write the operator's kubeconfig with another port of the server."""
    config = yaml.safe_load((folder / "kubeconfig").read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = f"https://127.0.0.1:{port}"
    file = folder / "proxied"
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        pytest.param("cut", 2, id="cut"),
        pytest.param("reset", 2, id="reset"),
        pytest.param("held", 1, id="held", marks=long_only),  # a watch that is held is given up after 70 s
    ],
)
def test_a_change_is_done_though_every_connection_has_failed(
    start: Start,
    proxy: TcpProxy,
    api_server: ApiServer,
    kubectl: Kubectl,
    tmp_path: Path,
    fault: str,
    times: int,
) -> None:
    operator = start(KUBECONFIG=str(kubeconfig(tmp_path, proxy.front(api_server.port))))
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    for wanted in range(3, 3 + times):
        failed = proxy.hold(everything) if fault == "held" else proxy.cut(everything, reset=fault == "reset")
        assert failed > 0
        applied(kubectl, replicas=wanted)

        def reached(wanted: int = wanted) -> bool:
            play_controller(kubectl)
            return workers(kubectl) == wanted

        operator.until(reached)
    assert operator.end() == 0
