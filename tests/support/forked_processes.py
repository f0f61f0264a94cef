"""Processes of Penstock in tests, forked where a user's load everything anew.

``penstock run`` is five processes, and each loads Arrow, numba or gRPC: 4 s of CPU for a job of 3,000 rows. Inside
:func:`forking`, ``python -m penstock...`` comes from a helper that has loaded them. The process that is forked has a
helper of its own, for the processes that it starts itself::

    test ── order ──> helper ──fork──> middle ──fork──> process ──fork──> helper of the process
         <── pid ────                  (ends)

When the middle ends, the kernel gives its child to the nearest ancestor that asks for orphans. The test asks for them
while it waits for the number. So the process is the test's own child, which it waits for, signals and reads as usual.
What a fork cannot give is started as usual: a prefix such as ``setpriv``, and other values of the variables that Python
and its libraries read while they load.
"""

import ctypes
import fcntl
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

from penstock.engine.fork_server import load_kernels, load_modules

ROOT = Path(__file__).parents[2]
LOADED = (
    "penstock.keeper.__main__",
    "penstock.cli.app",
    "penstock.cli.crash_reporter",
    "penstock.cli.debug",
    "penstock.cli.function_lines",
    "penstock.cli.local_settings",
    "penstock.cli.past_runs",
    "penstock.cli.preflight",
    "penstock.cli.record",
    "penstock.cli.run_watch",
    "penstock.cli.screen",
    "penstock.metrics.exporter",
    "penstock.supervisor",
    "grpc._server",  # comes with a server of one's own
    "pandas",  # comes with the first array that Arrow makes
    "pydantic.type_adapter",  # these two come with the first command that typer calls
    "typer._adapters",
)
STARTS_OTHERS = "penstock.cli"
READ_AT_START = ("PYTHON", "NUMBA", "OMP_", "OPENBLAS", "MALLOC", "LD_", "LANG", "LC_", "GRPC", "ARROW")
PR_SET_CHILD_SUBREAPER = 36
HIGH = 500  # descriptors of a helper and of its owner's end have numbers from here on
ORDER_BYTES_MAX, DESCRIPTORS_MAX = 1 << 17, 32
_usual = subprocess._fork_exec  # type: ignore[attr-defined]


class Order(NamedTuple):
    """A process to be forked. Its first descriptors become 0, 1 and 2; ``passed`` are the numbers of the others."""

    module: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    passed: list[int]
    group: int
    session: bool


class Helper:
    """A helper, as its owner sees it. It ends with its owner."""

    def __init__(self, connection: socket.socket) -> None:
        """Own the connection to it."""
        self._connection = connection
        self._loaded_with = _read_at_start(os.environ)
        self._lock = threading.Lock()

    def start(self, order: Order, descriptors: Sequence[int]) -> int:
        """Have a process forked that becomes a child of this one. Returns its number."""
        with self._lock:
            _take_orphans(True)
            try:
                socket.send_fds(self._connection, [json.dumps(order).encode()], descriptors)
                said = self._connection.recv(ORDER_BYTES_MAX)
            finally:
                _take_orphans(False)
        if not said:
            raise ChildProcessError("the helper that forks processes of Penstock has ended")
        return int(said)

    def fork_exec(self, *given: Any) -> int:
        """Do what :mod:`subprocess` asks of the system, with a fork where that gives the same process."""
        command, _, _, kept, folder, environment, *rest = given
        inside, _, _, outside, _, errors, _, spare, _, session, group, *other_user, prepare, _ = rest
        words = [os.fsdecode(word) for word in command]
        variables = dict(os.environ) if environment is None else _as_dict(environment)
        here = os.getcwd() if folder is None else os.fsdecode(folder)
        special = prepare is not None or any(user not in {None, -1} for user in other_user)
        loads_alike = _read_at_start(variables) == self._loaded_with and os.access(here, os.X_OK)
        if special or not loads_alike or not _is_ours(words):
            return int(_usual(*given))
        passed = [number for number in kept if number != spare]
        standard = [own if pipe == -1 else pipe for own, pipe in enumerate((inside, outside, errors))]
        wanted = os.getpgid(0) if group == -1 else group
        order = Order(words[2], words[3:], here, variables, passed, wanted, session)
        return self.start(order, [*standard, *passed])


@contextmanager
def forking() -> Iterator[None]:
    """Fork the processes of Penstock that this process starts, where processes can be forked: on Linux."""
    if sys.platform != "linux":
        yield
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __spec__.name, str(theirs.fileno())]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], process_group=0)
    theirs.close()
    _fork_by(Helper(ours))
    try:
        yield
    finally:
        subprocess._fork_exec = _usual  # type: ignore[attr-defined]
        ours.close()
        process.wait()


@contextmanager
def fresh() -> Iterator[None]:
    """Inside :func:`forking`, start processes as a user does."""
    before = subprocess._fork_exec  # type: ignore[attr-defined]
    subprocess._fork_exec = _usual  # type: ignore[attr-defined]
    try:
        yield
    finally:
        subprocess._fork_exec = before  # type: ignore[attr-defined]


def _fork_by(helper: Helper) -> None:
    subprocess._fork_exec = helper.fork_exec  # type: ignore[attr-defined]


def _take_orphans(wanted: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def _as_dict(environment: Sequence[bytes]) -> dict[str, str]:
    pairs = (os.fsdecode(variable).partition("=") for variable in environment)
    return {name: value for name, _, value in pairs}


def _is_ours(words: Sequence[str]) -> bool:
    return len(words) > 2 and words[:2] == [sys.executable, "-m"] and words[2].startswith("penstock.")


def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(READ_AT_START)}


# --- The helper ---------------------------------------------------------------------------------


def serve(link: int) -> tuple[Order, list[int]]:
    """Fork a process for each order. Returns in the processes that are forked; the helper ends with its owner."""
    connection = socket.socket(fileno=link)
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, ORDER_BYTES_MAX, DESCRIPTORS_MAX)
        if not message:
            os._exit(0)
        told, number = os.pipe()
        adopted, go = os.pipe()
        middle = _fork()
        if middle == 0:
            if _fork() > 0:
                os._exit(0)
            connection.detach()  # the number is closed with all others
            order = Order(*json.loads(message))
            # Its parent of another group ends: a group in which a process stands still would be hung up by the kernel.
            os.read(adopted, 1)  # until it has its own parent
            _join_group(order)
            os.write(number, str(os.getpid()).encode())
            return order, descriptors
        os.close(number)
        os.waitpid(middle, 0)
        os.write(go, b"!")
        connection.send(os.read(told, 64))
        for descriptor in (told, adopted, go, *descriptors):
            os.close(descriptor)


def _fork() -> int:
    with warnings.catch_warnings():
        # The other threads belong to OpenBLAS and jemalloc, and both prepare for a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _join_group(order: Order) -> None:
    if order.session:
        os.setsid()
    elif order.group != os.getpgid(0):
        os.setpgid(0, order.group)


def become(order: Order, descriptors: Sequence[int]) -> None:
    """Be the process that was asked for, to its end."""
    _own_descriptors(descriptors, (0, 1, 2, *order.passed))
    if order.module == STARTS_OTHERS:
        ours, theirs = _high_pair()
        if _fork() == 0:
            ours.close()
            become(*_as_helper(theirs.detach()))
            return
        theirs.close()
        _fork_by(Helper(ours))
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.path[0], sys.argv = order.folder, ["-m", *order.arguments]
    _open_streams()
    sys.modules["numpy.random"].seed()
    gc.enable()
    for name in (order.module, f"{order.module}.__main__"):  # it is loaded anew, as __main__
        if not hasattr(sys.modules.get(name), "__path__"):
            sys.modules.pop(name, None)
    runpy.run_module(order.module, run_name="__main__", alter_sys=True)


def _as_helper(link: int) -> tuple[Order, list[int]]:
    """Serve a process that was forked, in a group of its own, so that Ctrl-C is not for this process."""
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    _own_descriptors([nothing] * 3, (0, 1, 2), link)
    return serve(link)


def _own_descriptors(descriptors: Sequence[int], numbers: Sequence[int], *kept: int) -> None:
    """Give descriptors their numbers, and close all others."""
    aside = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, HIGH) for descriptor in descriptors]
    for number, descriptor in zip(numbers, aside, strict=True):
        os.dup2(descriptor, number)
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) not in {*numbers, *kept}:
            with suppress(OSError):  # the one of the listing
                os.close(int(entry))


def _high_pair() -> list[socket.socket]:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    high = [socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH)) for end in pair]
    for end in pair:
        end.close()
    return high


def _open_streams() -> None:
    """Open the standard streams as the interpreter does."""
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        before = getattr(sys, name)
        lines = number == 2 or os.isatty(number)
        unbuffered = at_once and mode == "w"
        raw = open(number, f"{mode}b", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115  as long as the process
        stream = TextIOWrapper(raw, before.encoding, before.errors, line_buffering=lines, write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def main(descriptor: int) -> None:
    """Load what processes of Penstock load, and fork them."""
    for module in LOADED:
        import_module(module)
    load_modules()
    deque(load_kernels(), 0)
    gc.collect()
    gc.freeze()
    link = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, HIGH)
    os.close(descriptor)
    become(*serve(link))


if __name__ == "__main__":
    main(int(sys.argv[1]))
