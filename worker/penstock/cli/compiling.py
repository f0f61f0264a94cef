"""Says that kernels are compiled, where a run would be silent for it longer than a second."""

import time
from collections.abc import Callable

from penstock.model.kernels.place import folder_of_version, is_compiling

SAID_AFTER_S = 1.0
SAID = "compiling kernels: once on this machine for each kind of step, up to half a minute"


class Compiling:
    """Looks until it has said it, once."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        """``say`` shows one line; ``clock`` gives seconds."""
        self._say = say
        self._clock = clock
        self._since: float | None = None
        self._said = False

    def look(self) -> None:
        """Look; called again and again."""
        if self._said:
            return
        if not is_compiling(folder_of_version()):
            self._since = None
        elif self._since is None:
            self._since = self._clock()
        elif self._clock() - self._since >= SAID_AFTER_S:
            self._said = True
            self._say(SAID)
