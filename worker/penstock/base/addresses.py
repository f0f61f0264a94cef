"""How network addresses are spelled."""


def join_address(host: str, port: int | str) -> str:
    """Spell ``host:port``, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
