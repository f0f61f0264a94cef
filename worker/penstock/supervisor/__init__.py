"""``penstock run``'s local cluster: plays for keepers the part that Kubernetes will play.

What belongs here: the processes of the workers, the metadata store and Lease they share, what
is wanted of them, and what they say of themselves. What does not: leadership, checkpoints,
recovery, rescale; those are the workers' own, and the same in a cluster. No Arrow, no numba.
"""

from penstock.supervisor.client import JobClient, connect
from penstock.supervisor.local_cluster import LocalCluster
from penstock.supervisor.settings import ClusterSettings

__all__ = ["ClusterSettings", "JobClient", "LocalCluster", "connect"]
