"""``python -m penstock.engine.fork_server DESCRIPTOR``: see :mod:`penstock.cluster.host`.

It has one thread and runs no user code, so it can be forked at any time. It ends when its standard
input is closed. Between requests it loads kernels.
"""

import fcntl
import gc
import os
import selectors
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from penstock.base.errors import PeerError
from penstock.base.limits import FORK_REQUEST_TIMEOUT_S
from penstock.base.threads import end_process, monotonic
from penstock.base.values import replace
from penstock.cluster.host import Began, Begin, Ended, remove_socket
from penstock.cluster.link import DescriptorLink, LinkClosed
from penstock.contract.ids import Incarnation

if TYPE_CHECKING:
    from penstock.model.kernels.jit import Kernel

LIFE_LINE = 0
DESCRIPTORS = 3  # that a keeper gives: link, output, error
EXIT_UNCAUGHT = 1  # the interpreter's own, after a traceback
MODULES = (
    "penstock.cluster.link",
    "penstock.connectors.open_connectors",
    "penstock.engine.build",
    "penstock.engine.main",
    "penstock.engine.warm",
    "penstock.engine.worker",
    "penstock.graph.assemble",
    "penstock.graph.inspect_arrow",
    "penstock.model.keys",
    "penstock.model.split",
    "penstock.model.kernels.routing",
    "penstock.keyed_state.keyed_backend",
    "penstock.storage.trust",
    "penstock.transport.stream",
    "penstock.transport.exchange",
)


@dataclass(slots=True)
class EngineLife:
    """An engine that was forked, until it has been waited for."""

    incarnation: Incarnation
    pid: int
    handle: int
    keeper: DescriptorLink


class ForkServer:
    """Forks engines. Everything happens in one thread, in :meth:`run`."""

    def __init__(self, listener: socket.socket) -> None:
        """Own ``listener``."""
        self._listener = listener
        self._ready = selectors.DefaultSelector()
        self._ready.register(listener, selectors.EVENT_READ)
        self._ready.register(LIFE_LINE, selectors.EVENT_READ)
        self._lives: dict[int, EngineLife] = {}

    def run(self, chores: Iterator[object]) -> None:
        """Serve until the life line ends; between requests take the next of ``chores``."""
        busy = True
        while True:
            ready = [key.fd for key, _ in self._ready.select(0 if busy else None)]
            if LIFE_LINE in ready:
                return
            for descriptor in ready:
                if descriptor == self._listener.fileno():
                    self._answer()
                else:
                    self._reap(self._lives.pop(descriptor))
            busy = busy and next(chores, None) is not None

    def _answer(self) -> None:
        connection, _ = self._listener.accept()
        keeper = DescriptorLink(connection, Begin)
        given: list[int] = []
        try:
            # For the whole message: a keeper that hangs, or that says a byte now and then, holds nobody up.
            order, given = keeper.receive(monotonic() + FORK_REQUEST_TIMEOUT_S)
            connection.settimeout(FORK_REQUEST_TIMEOUT_S)
            self._fork(order, keeper, given)
        except (LinkClosed, PeerError):
            keeper.close()
        finally:
            for descriptor in given:
                os.close(descriptor)

    def _fork(self, order: Begin, keeper: DescriptorLink, given: list[int]) -> None:
        if len(given) != DESCRIPTORS:
            raise PeerError(f"{len(given)} descriptors for an engine, not link, output and error")
        gc.freeze()  # a collector that looks at these objects would copy their pages
        with warnings.catch_warnings():
            # The other threads belong to OpenBLAS and jemalloc, and both prepare for a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            self._become_engine(order, keeper, given)
        life = EngineLife(order.launch.incarnation, pid, os.pidfd_open(pid), keeper)
        self._lives[life.handle] = life
        self._ready.register(life.handle, selectors.EVENT_READ)
        with suppress(LinkClosed):  # the engine will find its link closed, and end
            keeper.send(Began(life.incarnation, pid), life.handle)

    def _reap(self, life: EngineLife) -> None:
        self._ready.unregister(life.handle)
        os.close(life.handle)
        _, status = os.waitpid(life.pid, 0)
        with suppress(LinkClosed):  # nobody is left who asked
            life.keeper.send(Ended(life.incarnation, os.waitstatus_to_exitcode(status)))
        life.keeper.close()

    def _become_engine(self, order: Begin, keeper: DescriptorLink, given: list[int]) -> NoReturn:
        """Run an engine in this process, which was forked just now."""
        try:
            from penstock.engine.main import run  # noqa: PLC0415 - load_modules() has loaded it

            self._leave_to_parent(keeper)
            link, *outputs = given
            _place(os.open(os.devnull, os.O_RDONLY), *outputs)
            with suppress(PermissionError):  # a keeper of another session: it ends it by itself
                os.setpgid(0, order.group)
            _seed_again()
            run(replace(order.launch, socket=f"fd:{link}"))
        except BaseException:  # as the interpreter would: told, and the status of it
            traceback.print_exc()
        finally:
            end_process(EXIT_UNCAUGHT)

    def _leave_to_parent(self, keeper: DescriptorLink) -> None:
        # These sockets must end with the server: a keeper waits for the end of its connection.
        self._ready.close()
        self._listener.close()
        keeper.socket.close()
        for life in self._lives.values():
            os.close(life.handle)
            life.keeper.socket.close()


def _place(*descriptors: int) -> None:
    """Give descriptors the numbers 0, 1, 2; what lies there now is closed."""
    aside = [fcntl.fcntl(d, fcntl.F_DUPFD, len(descriptors)) for d in descriptors]
    for number in descriptors:
        os.close(number)
    for number, descriptor in enumerate(aside):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _seed_again() -> None:
    """Give this process random numbers of its own; Python's own module does so by itself."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def load_modules() -> None:
    """Import what engines import sooner or later, whatever their job."""
    for name in MODULES:
        import_module(name)


def load_kernels() -> "Iterator[Kernel]":
    """Load kernels, one at a time, that need not be compiled: engines do that side by side."""
    from penstock.engine.warm import kernels_in_use  # noqa: PLC0415 - load_modules() has loaded it

    for kernel in kernels_in_use():
        if kernel.is_cached() and kernel.try_compile():
            yield kernel


def main(arguments: list[str]) -> None:
    """Load modules, then serve at the listening socket whose descriptor is given."""
    gc.disable()  # until an engine has loaded its job: modules live on, and walking them takes 0.1 s
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # its parent ends it
    listener = socket.socket(fileno=int(arguments[0]))
    load_modules()
    kernels = load_kernels()
    next(kernels, None)  # what the first one takes with it is most of the work: once, not in forks
    ForkServer(listener).run(kernels)
    remove_socket(listener)


if __name__ == "__main__":
    main(sys.argv[1:])
