"""No rank outlives the process that made it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil

from tests.engine.conftest import TIMEOUT_S

PARENT = """
import sys
from tests.engine.parallel.test_group import make
group = make()
group.start()
print(*group.pids, flush=True)
sys.stdin.read()
"""


def test_ranks_die_with_a_parent_that_is_killed() -> None:
    """Even one that is stopped, which can't look for itself; and the process that forked them."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        ranks = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        everyone = psutil.Process(parent.pid).children(recursive=True)
        assert len(ranks) == 2
        assert len(everyone) == 3
        os.kill(ranks[1].pid, signal.SIGSTOP)
        parent.kill()
    _, alive = psutil.wait_procs(everyone, timeout=TIMEOUT_S)
    parent.wait()
    assert alive == []
