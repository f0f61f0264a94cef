"""The chart of this checkout, as a release of Helm in a cluster."""

from pathlib import Path

from e2e.rig.cluster import Cluster

CHART = Path(__file__).resolve().parents[2] / "charts" / "penstock"
RELEASE = "penstock"
SYSTEM = "penstock-system"  # its namespace
WITHIN_S = 180


def install(cluster: Cluster, namespace: str, *options: str) -> None:
    """Install or upgrade it with its definitions. Returns when its newest pod is ready."""
    definitions = str(CHART / "crds")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", definitions)
    cluster.kubectl("wait", "--for=condition=Established", "-f", definitions, "--timeout=30s")
    repository, _, tag = cluster.images.operator.rpartition(":")
    cluster.run_helm(
        "upgrade", "--install", RELEASE, str(CHART), f"--namespace={namespace}",
        f"--set=image.repository={repository},image.tag={tag},image.pullPolicy=Never",
        # The image of this tag may be newer than that of the running pod.
        f"--set=podAnnotations.image-id={_image_id(cluster)}",
        *options, "--wait", f"--timeout={WITHIN_S}s",
    )  # fmt: skip


def _image_id(cluster: Cluster) -> str:
    """Give a value that differs between two images of one name."""
    node = cluster.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    shown = ["-o", "go-template", "--template", "{{.status.id}}"]
    return cluster.on_node(node, "crictl", "inspecti", *shown, cluster.images.operator).strip()
