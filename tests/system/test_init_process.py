"""Process 1: orphans are reaped, signals reach the program, and its exit code is the container's."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from patience import PATIENCE

pytestmark = pytest.mark.process

BEGIN = """
import ctypes, os, signal, subprocess, sys, time
# Orphans come to this process, as they come to process 1 of a container.
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
from fairlead.system.init_process import fork_under_init
init = os.getpid()
fork_under_init()
"""


def start(body: str) -> "subprocess.Popen[str]":
    code = BEGIN + textwrap.dedent(body)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_orphans_are_reaped_and_own_children_are_not() -> None:
    process = start(
        """
        orphan = subprocess.run(["sh", "-c", "sleep 0.1 & echo $!"], stdout=subprocess.PIPE, text=True).stdout.strip()
        # Its parent is the init process now, and it is gone when it has ended: no zombie is left.
        while os.path.exists(f"/proc/{orphan}"):
            time.sleep(0.01)
        assert subprocess.run(["sh", "-c", "exit 7"]).returncode == 7
        assert os.getppid() == init
        print("reaped", flush=True)
        sys.exit(3)
        """
    )
    out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("reaped\n", 3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_program_once(number: signal.Signals) -> None:
    process = start(
        """
        got = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: got.append(number))
        print("ready", flush=True)
        while not got:
            time.sleep(0.01)
        time.sleep(0.1)
        print(len(got), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("1\n", 128 + signal.SIGKILL)


def test_another_process_than_the_first_does_not_fork() -> None:
    from fairlead.system.init_process import fork_if_first

    before = os.getpid()
    fork_if_first()
    assert os.getpid() == before
