"""A rank's process: ``python -m actors.engine.parallel.rank PIPE BEATS INPUTS OUTPUTS``, all descriptors.

It loads, then does orders until its pipe closes, or its parent is gone.
It ignores the signals that stop a worker, which may come to all processes of a terminal or service at once: the worker
finishes its jobs first, and needs its ranks for that.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import warnings
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from actors.engine.parallel.beats import Beats
from actors.engine.parallel.orders import LOAD_S, Assignment, Done, Failed, Ready

if TYPE_CHECKING:
    from actors.engine.parallel.arena import Arena
    from actors.engine.parallel.programs import Program

_PR_SET_PDEATHSIG = 1
_WORDS = 500  # the longest message of an error that is passed on


def main() -> None:
    """Serve the process that started this one."""
    quieten()
    serve(*(int(fd) for fd in sys.argv[1:]))


def serve(pipe: int, beats: int, inputs: int, outputs: int) -> None:
    """Be the rank that the other end of a pipe says, for good. The other descriptors are of shared memory."""
    connection = Connection(pipe)
    assignment: Assignment = connection.recv()
    outlive_nobody()
    Beats(beats, assignment.seat.size).keep(assignment.seat.rank, os.getppid())
    try:
        program = _load(assignment)
    except Exception as error:
        connection.send(_failure(error))
    else:
        with suppress(EOFError, BrokenPipeError, ConnectionResetError):
            _work(connection, assignment, inputs, outputs, *program)
    os._exit(0)  # the libraries' own ways out wait for ranks that may be gone


def quieten() -> None:
    """The libraries' warnings quote prompts, and would come once a rank."""
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "DIFFUSERS_VERBOSITY": "error"}
    warnings.simplefilter("ignore", FutureWarning)


def outlive_nobody() -> None:
    """Die with the parent, and with nothing else. Linux tells even a process that is stopped."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _load(assignment: Assignment) -> tuple[Program, int]:
    import torch
    from torch._C._distributed_c10d import FileStore

    seat = assignment.seat
    if assignment.cores is not None:
        torch.set_num_threads(assignment.cores)
    if seat.device.kind == "cuda":
        torch.cuda.set_device(seat.device.place)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    torch.distributed.init_process_group(
        "nccl" if seat.device.kind == "cuda" else "gloo",
        store=FileStore(str(Path(assignment.folder) / "store"), seat.size),
        rank=seat.rank,
        world_size=seat.size,
        timeout=timedelta(seconds=LOAD_S),
    )
    module, _, name = assignment.program.partition(":")
    program: Program = getattr(import_module(module), name)()
    with torch.no_grad():
        weights = program.load(seat)
    torch.distributed.barrier()  # connects all pairs now, where there is time
    _bound_exchanges(assignment.timeout_s)
    return program, weights


def _bound_exchanges(seconds: float) -> None:
    """Bound each from now on; loading had more time, as ranks may be far apart in it."""
    from torch.distributed import distributed_c10d

    for group in distributed_c10d._world.pg_map:
        distributed_c10d._set_pg_timeout(timedelta(seconds=seconds), group)


def _work(
    connection: Connection, assignment: Assignment, inputs_fd: int, outputs_fd: int, program: Program, weights: int
) -> None:
    import torch

    from actors.engine.parallel.arena import Arena

    inputs, outputs = Arena(inputs_fd), Arena(outputs_fd)
    connection.send(Ready(weights))
    while True:
        data = connection.recv_bytes()
        with torch.no_grad():
            connection.send(_reply(data, assignment, program, inputs, outputs))


def _reply(data: bytes, assignment: Assignment, program: Program, inputs: Arena, outputs: Arena) -> Done | Failed:
    try:
        order = inputs.unpack(data, assignment.seat.device.place)
        tensors = list(program.run(order))
        return Done(outputs.pack(tensors if order.answers else [])[0], _peak(assignment.seat.device.kind))
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> Failed:
    """What the parent is told. A rank that lost another hears of it from gloo or NCCL."""
    import torch

    from actors.engine.devices import causes, is_device_lost, is_out_of_memory
    from actors.engine.errors import ModelUnavailableError, OutOfMemoryError

    words = f"{type(error).__name__}: {error}".partition("\n")[0][:_WORDS]
    if isinstance(error, ModelUnavailableError):
        return Failed("model", str(error))
    if isinstance(error, OutOfMemoryError) or is_out_of_memory(error):
        return Failed("memory", words)
    if is_device_lost(error):
        return Failed("device", words)
    lost = torch.distributed.DistError
    linked = any(isinstance(one, lost) or "gloo/" in str(one) or "NCCL" in str(one) for one in causes(error))
    if not linked:
        sys.excepthook(type(error), error, error.__traceback__)
    return Failed("link" if linked else "order", words)


def _peak(kind: str) -> int:
    """The most bytes that this process has had: of its device's memory, or of the machine's."""
    import torch

    if kind == "cuda":
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main()
