"""Counts the effects of a Penstock process and hits one of them. Loaded from outside, by PYTHONPATH.

A test puts this folder into PYTHONPATH and a folder of its own into FAILPOINTS. Python then imports
this module in every process of the run before any other code. Forked processes have it, too. The
module puts wrappers around the functions through which effects leave a process. A wrapper counts
only when a function of Penstock is among its callers. The *place* of an effect is its name and the
two innermost functions of Penstock that called it.

::

    $FAILPOINTS/counts/<place>   one byte for each occurrence, over all processes of the run
    $FAILPOINTS/order.json       what to hit: place (or a pattern), nth, action, errno; missing in a run that counts
    $FAILPOINTS/hit.json         made when the order was carried out: by which process

With FAILPOINTS_PROXY, the path of a Unix socket, servers advertise ports of the test's proxy.

Not seen: what C and C++ write by themselves. These are RocksDB's files, Flight's and gRPC's bytes on
their sockets, SQLite's own files (its commits are seen), and shared memory. Parquet files are seen,
because a sink writes them through a file object of Python.
"""

import builtins
import functools
import importlib.abc
import importlib.util
import io
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

FOLDER = os.environ.get("FAILPOINTS", "")
PROXY = os.environ.get("FAILPOINTS_PROXY", "")
SOURCE = "/worker/penstock/"
PASSED_OVER = ("/numba/", "/penstock/model/kernels/jit.py")  # caches of compiled code: shared by all runs
PORT = "OsFileSystem."  # calls the function of the system that has its name: its caller is meant
FRAMES_MAX = 60
NEW = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC

_real_open, _real_write, _real_close, _real_lseek = os.open, os.write, os.close, os.lseek
_real_io_open = io.open
_lock = threading.Lock()
_counters: dict[tuple[int, str], int] = {}

Fail = Callable[[int], BaseException]


def _read_order() -> dict[str, Any]:
    try:
        with _real_io_open(f"{FOLDER}/order.json", "rb") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except FileNotFoundError:
        return {}


_order = _read_order() if FOLDER else {}


# --- Places and counts ----------------------------------------------------------------------------


def _callers(frame: FrameType | None) -> list[str]:
    """Return the two innermost functions of Penstock on the stack; none when another library acts."""
    found: list[str] = []
    for _ in range(FRAMES_MAX):
        if frame is None or len(found) == 2:
            break
        file = frame.f_code.co_filename
        if any(part in file for part in PASSED_OVER):
            return []
        if SOURCE in file and not frame.f_code.co_qualname.startswith(PORT):
            module = file.rpartition("/")[2].removesuffix(".py")
            name = f"{module}.{frame.f_code.co_qualname}".replace(".<locals>", "")
            if name not in found:
                found.append(name)
        frame = frame.f_back
    return found


def _place(effect: str) -> str | None:
    callers = _callers(sys._getframe(2))
    return f"{effect} {' < '.join(callers)}" if callers else None


def _count(place: str) -> int:
    """Count one occurrence, and return its number over all processes: the end of a file that is appended to."""
    key = (os.getpid(), place)  # a forked process must not share the position in the file
    with _lock:
        if key not in _counters:
            name = f"{FOLDER}/counts/{place.replace('/', '|')}"
            _counters[key] = _real_open(name, NEW | os.O_APPEND, 0o600)
        _real_write(_counters[key], b".")
        return _real_lseek(_counters[key], 0, os.SEEK_CUR)


def _is_mine(place: str) -> bool:
    """Return whether this process carries the order out: it is carried out once in a run."""
    note = json.dumps({"pid": os.getpid(), "place": place, "command": sys.argv[:3]}).encode()
    try:
        file = _real_open(f"{FOLDER}/hit.json", NEW | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    _real_write(file, note)
    _real_close(file)
    return True


def _at(place: str | None, do: Callable[[], Any], fail: Fail, undo: Callable[[Any], object] | None = None) -> Any:
    """Perform an effect, or what the order says in its stead. ``undo`` releases a result that is lost."""
    if place is None:
        return do()
    number = _count(place)
    if not _order or number != _order["nth"] or not fnmatchcase(place, _order["place"]) or not _is_mine(place):
        return do()
    match _order["action"]:
        case "kill-before":
            os.kill(os.getpid(), signal.SIGKILL)
        case "pause":
            os.kill(os.getpid(), signal.SIGSTOP)  # the test continues it
        case "error":
            raise fail(_order["errno"])
    done = do()
    if _order["action"] == "kill-after":
        os.kill(os.getpid(), signal.SIGKILL)
    if _order["action"] == "lost":
        if undo is not None:
            undo(done)
        raise fail(_order["errno"])
    return done


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


# --- Files ----------------------------------------------------------------------------------------

EFFECTS = {
    "open": "open",
    "write": "write",
    "fsync": "fsync",
    "link": "link",
    "rename": "rename",
    "replace": "rename",
    "unlink": "unlink",
    "remove": "unlink",
    "mkdir": "mkdir",
    "rmdir": "rmdir",
}


def _hook_os(name: str, effect: str) -> None:
    real: Callable[..., Any] = getattr(os, name)
    undo = _real_close if name == "open" else None

    @functools.wraps(real)
    def hooked(*args: Any, **named: Any) -> Any:
        return _at(_place(effect), lambda: real(*args, **named), _os_error, undo)

    for kinds in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if real in kinds:
            kinds.add(hooked)  # shutil asks for it
    setattr(os, name, hooked)


class _File(io.FileIO):
    """A file that Python opens for writing. The buffer above it calls ``write``."""

    def write(self, data: Any) -> int:
        written: int = _at(_place("write"), lambda: io.FileIO.write(self, data), _os_error)
        return written


def _open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """Open a file as the built-in function does, with a raw file whose writes are seen."""
    if isinstance(file, int):
        return _real_io_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    place = _place("open")
    if place is None or not set(mode) & set("wax+"):
        return _at(
            place,
            lambda: _real_io_open(file, mode, buffering, encoding, errors, newline, closefd, opener),
            _os_error,
            lambda opened: opened.close(),
        )
    raw = _at(
        place,
        lambda: _File(file, mode.replace("b", "").replace("t", ""), closefd, opener),
        _os_error,
        lambda opened: opened.close(),
    )
    if buffering == 0:
        return raw
    size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
    buffered: Any = io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)
    if "b" in mode:
        return buffered
    return io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)


# --- Messages -------------------------------------------------------------------------------------


def _kind(data: bytes) -> str:
    """Return what a message is, and what it carries."""
    try:
        plain = json.loads(data[data.index(b"{") :])
        inner: dict[str, str] = next((plain[part] for part in ("body", "command", "report") if part in plain), {})
        return " ".join(filter(None, (plain.get("is", ""), inner.get("is", ""))))
    except (ValueError, AttributeError):
        return ""


def _hook_socket() -> None:
    real = socket.socket.sendall

    def sendall(self: socket.socket, data: Any, *flags: int) -> None:
        place = _place(f"send {_kind(bytes(data))}")
        _at(place, lambda: real(self, data, *flags), _os_error)

    socket.socket.sendall = sendall  # type: ignore[method-assign, assignment]


def _hook_sqlite(module: ModuleType) -> None:
    class Connection(module.Connection):  # type: ignore[name-defined, misc]
        def execute(self, query: str, *values: Any) -> Any:
            if not query.lstrip().upper().startswith("COMMIT"):
                return super().execute(query, *values)
            place = _place("commit")
            return _at(
                place,
                lambda: module.Connection.execute(self, query, *values),
                lambda number: module.OperationalError(f"disk I/O error ({number})"),
            )

    real = module.connect

    def connect(*args: Any, **named: Any) -> Any:
        return real(*args, **{"factory": Connection, **named})

    module.connect = connect  # type: ignore[attr-defined]


class _Channel:
    """A client's channel whose calls are seen."""

    def __init__(self, grpc: ModuleType, real: Any) -> None:
        class Unavailable(grpc.RpcError):  # type: ignore[name-defined, misc]
            def code(self) -> Any:
                return grpc.StatusCode.UNAVAILABLE

            def details(self) -> str:
                return "a failpoint"

        self._real = real
        self._error = Unavailable

    def unary_unary(self, method: str, *args: Any, **named: Any) -> Any:
        remote = self._real.unary_unary(method, *args, **named)

        def call(request: bytes, *more: Any, **rest: Any) -> Any:
            place = f"call {method.rpartition('/')[2]} {_kind(request)}"
            return _at(place, lambda: remote(request, *more, **rest), lambda _: self._error())

        return call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _hook_grpc(module: ModuleType) -> None:
    make_handler = module.method_handlers_generic_handler

    def replying(name: str, handler: Any) -> Any:
        real = handler.unary_unary

        def answer(data: bytes, context: Any) -> Any:
            def fail(_: int) -> BaseException:
                context.abort(module.StatusCode.UNAVAILABLE, "a failpoint")  # raises
                raise AssertionError

            return _at(f"reply {name} {_kind(data)}", lambda: real(data, context), fail)

        return handler._replace(unary_unary=answer)

    def method_handlers(service: str, table: dict[str, Any]) -> Any:
        return make_handler(service, {name: replying(name, handler) for name, handler in table.items()})

    module.method_handlers_generic_handler = method_handlers  # type: ignore[attr-defined]
    for name in ("insecure_channel", "secure_channel"):
        real = getattr(module, name)
        setattr(module, name, functools.partial(_channel, module, real))


def _channel(module: ModuleType, real: Callable[..., Any], *args: Any, **named: Any) -> _Channel:
    return _Channel(module, real(*args, **named))


def _hook_httpx(module: ModuleType) -> None:
    real = module.Client.send

    def send(self: Any, request: Any, **named: Any) -> Any:
        place = _place(f"kubernetes {request.method}")
        return _at(place, lambda: real(self, request, **named), lambda _: module.ReadError("a failpoint"))

    module.Client.send = send


# --- Ports ----------------------------------------------------------------------------------------


def _front(kind: str, port: int) -> int:
    """Ask the test's proxy for a port that leads to ``port``."""
    role = "supervisor" if "cli" in sys.argv[0] else "worker"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(PROXY)
        connection.send(json.dumps({"kind": kind, "role": role, "port": port}).encode() + b"\n")
        return int(connection.recv(64))


class _Server:
    """A gRPC server whose port is one of the proxy."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def add_insecure_port(self, address: str) -> int:
        return _front("grpc", self._real.add_insecure_port(address))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _proxy_grpc(module: ModuleType) -> None:
    real = module.server
    module.server = lambda *args, **named: _Server(real(*args, **named))  # type: ignore[attr-defined]


def _proxy_flight(module: ModuleType) -> None:
    class Server(module.FlightServerBase):  # type: ignore[name-defined, misc]
        front = 0

        @property
        def port(self) -> int:
            if not self.front:
                self.front = _front("flight", super().port)
            return self.front

    module.FlightServerBase = Server  # type: ignore[attr-defined]


# --- Modules that are imported later --------------------------------------------------------------


class _After(importlib.abc.MetaPathFinder):
    """Hooks modules when they have been loaded: not every process needs them."""

    def __init__(self, hooks: dict[str, Callable[[ModuleType], None]]) -> None:
        self._hooks = hooks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hook = self._hooks.pop(fullname, None)
        spec = None if hook is None else importlib.util.find_spec(fullname)
        if hook is None or spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            hook(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _install() -> None:
    for name, effect in EFFECTS.items():
        _hook_os(name, effect)
    io.open = builtins.open = _open
    _hook_socket()
    sys.meta_path.insert(0, _After({"sqlite3": _hook_sqlite, "grpc": _hook_grpc, "httpx": _hook_httpx}))


if FOLDER:
    _install()
if PROXY:
    sys.meta_path.insert(0, _After({"grpc": _proxy_grpc, "pyarrow.flight": _proxy_flight}))
