"""Virtual servers of output: each keeps what the real one promises. The kit for connectors runs on both."""


class Waits(Exception):
    """A request has to wait for another one: its client asks again."""
