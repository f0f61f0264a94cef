"""What the garbage collector of a process that simulates has to walk."""

import gc

COLLECTED_AFTER = (20_000, 20, 100)  # objects, and collections of each younger generation


def spare_the_collector() -> None:
    """Let the collector walk what runs make, not what this process has loaded: a tenth of the time."""
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)
