"""Threads, locks, queues, clocks and fresh names, for the code that the simulation runs as it is.

Each name is the original of the standard library, so it costs nothing. The packages ``engine``,
``transport``, ``state``, ``connectors``, ``steps`` and ``inprocess`` take these things from here and
from nowhere else; an import contract checks it. The simulation of the engine (``sim/real_engine``)
puts other things under the same names before it imports those packages. There a seed decides which
thread runs, and the clock is virtual.
"""

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from os import _exit as end_process
from queue import Empty, SimpleQueue
from threading import Condition, Event, Lock, Thread, Timer
from time import monotonic, monotonic_ns, perf_counter, sleep, thread_time
from uuid import uuid4

__all__ = [
    "Condition",
    "Empty",
    "Event",
    "Executor",
    "Future",
    "Lock",
    "SimpleQueue",
    "Thread",
    "ThreadPoolExecutor",
    "Timer",
    "end_process",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "sleep",
    "thread_time",
    "uuid4",
]
