"""NetworkPolicies as rules: what is selected, from where, and that nothing else passes."""

from typing import Any

import pytest

from e2e.cluster.node.policies import CHAIN, matches, rules
from penstock.contract.settings import Egress
from penstock_operator.resources.permissions import network_policy
from penstock_operator.resources.target import Owner

Object = dict[str, Any]


def pod(name: str, address: str, space: str = "apps", node: str = "here", **labels: str) -> Object:
    metadata = {"name": name, "namespace": space, "uid": f"{name}-uid", "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"podIP": address}}


def policy(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "apps"}, "spec": spec}


SPACES = [
    {"metadata": {"name": "apps", "labels": {"team": "a"}}},
    {"metadata": {"name": "other", "labels": {"team": "b"}}},
]
A = pod("a", "10.0.0.1", app="a")
B = pod("b", "10.0.0.2", app="b", node="there")
FAR = pod("far", "10.0.0.3", "other", app="a")
PEERS: list[Object] = [{"podSelector": {}}]
A_IN, A_OUT = "PEN-in-a-uid", "PEN-out-a-uid"


def lines(*policies: Object, node: str = "here") -> list[str]:
    return rules(list(policies), [A, B, FAR], SPACES, node).splitlines()


def test_without_policies_everything_passes() -> None:
    assert lines() == [
        "*filter",
        f":{CHAIN} - [0:0]",
        f"-A {CHAIN} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN",
        "COMMIT",
    ]


def test_what_is_selected_is_closed_save_for_what_is_named() -> None:
    found = lines(
        policy(
            "p",
            podSelector={"matchLabels": {"app": "a"}},
            ingress=[
                {
                    "from": [{"podSelector": {"matchLabels": {"app": "b"}}}],
                    "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}],
                },
                {"ports": [{"port": 90, "endPort": 92}]},
            ],
        )
    )
    assert f"-A {CHAIN} -d 10.0.0.1/32 -j {A_IN}" in found
    assert [line for line in found if line.startswith(f"-A {A_IN}")] == [
        f"-A {A_IN} -p tcp --dport 90:92 -j RETURN",
        f"-A {A_IN} -s 10.0.0.2/32 -p tcp --dport 80 -j RETURN",
        f"-A {A_IN} -s 10.0.0.2/32 -p udp --dport 53 -j RETURN",
        f"-A {A_IN} -j DROP",
    ]
    assert not any(A_OUT in line for line in found), "nobody closed the other direction"


def test_only_pods_of_this_node_are_guarded_here() -> None:
    closed = policy("p", podSelector={}, policyTypes=["Ingress"])
    assert f":{A_IN} - [0:0]" in lines(closed)
    assert not any("PEN-in-b-uid" in line for line in lines(closed))
    assert any("PEN-in-b-uid" in line for line in lines(closed, node="there"))
    assert not any("PEN-in-far" in line for line in lines(closed)), "of another namespace"


def test_a_peer_is_of_the_policys_namespace_unless_it_says_another() -> None:
    def allowed(peer: Object) -> list[str]:
        rule = policy("p", podSelector={}, policyTypes=["Egress"], egress=[{"to": [peer]}])
        return [line for line in lines(rule) if line.startswith(f"-A {A_OUT} -d")]

    assert allowed({"podSelector": {"matchLabels": {"app": "a"}}}) == [f"-A {A_OUT} -d 10.0.0.1/32 -j RETURN"]
    assert allowed({"namespaceSelector": {"matchLabels": {"team": "b"}}}) == [f"-A {A_OUT} -d 10.0.0.3/32 -j RETURN"]
    assert len(allowed({"namespaceSelector": {}, "podSelector": {}})) == 3
    assert allowed({"ipBlock": {"cidr": "::/0", "except": ["fe80::/10"]}}) == []
    assert allowed({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["128.0.0.0/1"]}}) == [
        f"-A {A_OUT} -d 0.0.0.0/1 -j RETURN"
    ]


def test_a_named_port_is_that_of_the_pod_that_is_reached() -> None:
    """The chart's own policy has one: the agent ended at it, and no pod of the node got rules."""
    named = {"ports": [{"port": "http", "protocol": "TCP"}]}
    server = pod("a", "10.0.0.1", app="a")
    server["spec"]["containers"] = [{"ports": [{"name": "http", "containerPort": 8080}]}]
    into = policy("p", podSelector={}, policyTypes=["Ingress"], ingress=[named])
    out = policy("p", podSelector={}, policyTypes=["Egress"], egress=[{"to": PEERS, **named}])
    text = rules([into, out], [server, B], SPACES, "here")
    assert f"-A {A_IN} -p tcp --dport 8080 -j RETURN" in text
    assert f"-A {A_OUT} -d 10.0.0.1/32 -p tcp --dport 8080 -j RETURN" in text
    closed = rules([into, out], [server, B], SPACES, "there")
    assert "-A PEN-out-b-uid -d 10.0.0.1/32 -p tcp --dport 8080 -j RETURN" in closed
    assert [line for line in closed.splitlines() if line.startswith("-A PEN-in-b")] == ["-A PEN-in-b-uid -j DROP"]


def test_a_pod_that_has_ended_has_no_address() -> None:
    """Another pod may have got it, and would be held to the policies of the first."""
    ended = pod("ended", "10.0.0.7")
    ended["status"]["phase"] = "Succeeded"
    closed = policy("p", podSelector={}, policyTypes=["Ingress"])
    assert "10.0.0.7" not in rules([closed], [ended], SPACES, "here")


@pytest.mark.parametrize(
    ("term", "selected"),
    [
        ({"key": "app", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "app", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "app", "operator": "DoesNotExist"}, False),
        ({"key": "tier", "operator": "DoesNotExist"}, True),
    ],
)
def test_expressions_select(term: Object, selected: bool) -> None:
    assert matches({"matchExpressions": [term]}, {"app": "a"}) is selected


def test_the_policy_of_a_job_can_be_enforced() -> None:
    found = network_policy(Owner("wc", "apps", "1234-uid"))
    mark = {"penstock.dev/job": "wc", "penstock.dev/component": "worker"}
    worker = pod("w", "10.0.0.9", **mark)
    text = rules([found], [worker, A], SPACES, "here")
    assert "-A PEN-in-w-uid -j DROP" in text
    assert "-A PEN-out-w-uid -j DROP" in text
    others = [line for line in text.splitlines() if "10.0.0.1/32" in line]
    assert others, "a pod may be a name server"
    assert {line.split("--dport ")[1].split()[0] for line in others} == {"53", "5353"}
    assert not [line for line in others if " -s 10.0.0.1/32" in line], "nothing comes in from it"


def test_what_a_user_allows_is_open_at_its_port_only() -> None:
    found = network_policy(Owner("wc", "apps", "1234-uid"), (Egress("10.0.0.1/32", 9092),))
    worker = pod("w", "10.0.0.9", **{"penstock.dev/job": "wc", "penstock.dev/component": "worker"})
    text = rules([found], [worker, A], SPACES, "here")
    ports = {line.split("--dport ")[1].split()[0] for line in text.splitlines() if "10.0.0.1/32" in line}
    assert ports == {"53", "5353", "9092"}
