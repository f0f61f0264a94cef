"""NetworkPolicies as iptables rules for the pods of one node. Pure: objects in, a text out.

Traffic of the node itself passes, because the kubelet's probes must not be stopped. Traffic of a pod
without a policy passes, too. A pod with policies may do what any of them allows. Addresses that
belong to no pod are matched by ``ipBlock``. This cluster has no IPv6 addresses, so IPv6 blocks match
nothing. A named port is a port of the destination pod; without a port of this name nothing passes.
"""

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

CHAIN = "PENSTOCK-POLICY"
Object = dict[str, Any]
DIRECTIONS = {"Ingress": ("in", "-d", "-s", "from"), "Egress": ("out", "-s", "-d", "to")}


def rules(policies: list[Object], pods: list[Object], namespaces: list[Object], node: str) -> str:
    """Give a text for ``iptables-restore --noflush`` that replaces all our chains.

    There is one chain for each pod and direction, and ``CHAIN``, which calls them.
    """
    labels = {n["metadata"]["name"]: n["metadata"].get("labels", {}) for n in namespaces}
    known = [p for p in pods if _has_address(p)]
    lead, chains = [f"-A {CHAIN} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"], []
    for pod in sorted(known, key=lambda p: str(p["status"]["podIP"])):
        if pod["spec"].get("nodeName") != node:
            continue
        for direction in DIRECTIONS:
            selecting = [p for p in policies if _selects(p, pod, direction)]
            if selecting:
                name, own = _chain(pod, direction), DIRECTIONS[direction][1]
                lead.append(f"-A {CHAIN} {own} {pod['status']['podIP']}/32 -j {name}")
                allowed = [line for p in selecting for line in _allowed(p, direction, pod, known, labels)]
                chains.append((name, sorted(set(allowed))))
    # An allowed packet returns to the calling chain, which then checks the other direction.
    text = ["*filter", f":{CHAIN} - [0:0]", *(f":{name} - [0:0]" for name, _ in chains), *lead]
    for name, allowed in chains:
        text += [f"-A {name} {line} -j RETURN" for line in allowed]
        text.append(f"-A {name} -j DROP")
    return "\n".join([*text, "COMMIT", ""])


def _has_address(pod: Object) -> bool:
    """Say whether the address is still the pod's: another pod may have that of an ended pod."""
    status = pod["status"]
    over = status.get("phase") in {"Succeeded", "Failed"}
    return bool(status.get("podIP")) and not over and not pod["spec"].get("hostNetwork")


def _chain(pod: Object, direction: str) -> str:
    return f"PEN-{DIRECTIONS[direction][0]}-{pod['metadata']['uid'][:13]}"


def _selects(policy: Object, pod: Object, direction: str) -> bool:
    spec = policy["spec"]
    types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and direction in types and matches(spec.get("podSelector", {}), _labels(pod))


def _allowed(
    policy: Object,
    direction: str,
    pod: Object,
    pods: list[Object],
    namespaces: dict[str, dict[str, str]],
) -> list[str]:
    """Give the matches for what one policy allows ``pod`` in one direction."""
    _, _, other, peers_key = DIRECTIONS[direction]
    found = []
    for rule in policy["spec"].get(direction.lower()) or []:
        peers = rule.get(peers_key) or []
        places = [p for peer in peers for p in _places(peer, policy, pods, namespaces)]
        for place, peer_pod in places if peers else [("", None)]:
            reached = pod if direction == "Ingress" else peer_pod
            source = f"{other} {place} " if place else ""
            found += [f"{source}{port}".strip() for port in _ports(rule, reached)]
    return found


def _ports(rule: Object, reached: Object | None) -> Iterator[str]:
    """Give the matches for the ports of a rule; named ports are those of the destination pod."""
    if not rule.get("ports"):
        yield ""
    for port in rule.get("ports") or []:
        protocol, number = port.get("protocol", "TCP"), port.get("port")
        if isinstance(number, str):
            number = _named(number, protocol, reached)
            if number is None:
                continue
        match = f"-p {protocol.lower()}"
        last = port.get("endPort")
        yield match + ("" if number is None else f" --dport {number}" + (f":{last}" if last else ""))


def _named(name: str, protocol: str, pod: Object | None) -> int | None:
    """Give the number of a pod's named port; None when it has none of this name."""
    for container in pod["spec"].get("containers", []) if pod else []:
        for port in container.get("ports") or []:
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None


def _places(
    peer: Object, policy: Object, pods: list[Object], namespaces: dict[str, dict[str, str]]
) -> list[tuple[str, Object | None]]:
    """Give the addresses of a peer: those of its pods, or a block without its exceptions."""
    block = peer.get("ipBlock")
    if block and ":" in block["cidr"]:
        return []
    if block:
        left = [IPv4Network(block["cidr"])]
        for each in block.get("except") or []:
            hole = IPv4Network(each)
            left = [part for net in left for part in (net.address_exclude(hole) if hole.subnet_of(net) else [net])]
        return [(str(net), None) for net in left]
    own = policy["metadata"]["namespace"]
    chosen = peer.get("namespaceSelector")
    spaces = {n for n, marks in namespaces.items() if chosen is not None and matches(chosen, marks)}
    if chosen is None:
        spaces = {own}
    selector = peer.get("podSelector", {})
    return [
        (f"{pod['status']['podIP']}/32", pod)
        for pod in pods
        if pod["metadata"]["namespace"] in spaces and matches(selector, _labels(pod))
    ]


def matches(selector: Object, labels: dict[str, str]) -> bool:
    """Say whether a label selector selects these labels. An empty one selects everything."""
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    for term in selector.get("matchExpressions") or []:
        value, values = labels.get(term["key"]), term.get("values") or []
        good = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[term["operator"]]
        if not good:
            return False
    return True


def _labels(pod: Object) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("labels", {})
    return found
