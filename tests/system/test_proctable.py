"""Processes that are not our children: identified by pid and start mark, and their end is noticed."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from fairlead.system import proctable
from fairlead.system.clock import SystemClock
from fairlead.system.process_wait import wait_gone
from fairlead.system.proctable import Process, kill_group, start_mark
from fairlead_testing.clock import ManualClock
from patience import PATIENCE


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["/bin/sleep", "300"], start_new_session=True)


@pytest.mark.process
async def test_the_end_of_a_process_is_noticed() -> None:
    other = sleeper()
    named = Process(other.pid, start_mark(other.pid))
    waiting = asyncio.create_task(wait_gone(named, SystemClock()))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert kill_group(other.pid, signal.SIGKILL)
    await asyncio.wait_for(waiting, PATIENCE)
    # A zombie that its parent has not reaped yet counts as gone.
    assert start_mark(other.pid) == ""
    other.wait()
    assert not kill_group(other.pid, signal.SIGKILL)
    await asyncio.wait_for(wait_gone(named, SystemClock()), PATIENCE)


async def test_another_process_with_the_same_number_counts_as_gone() -> None:
    await asyncio.wait_for(wait_gone(Process(os.getpid(), "another/1"), SystemClock()), PATIENCE)


@pytest.mark.process
async def test_without_pidfd_the_process_is_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    other = sleeper()
    clock = ManualClock()
    named = Process(other.pid, start_mark(other.pid))
    waiting = asyncio.create_task(wait_gone(named, clock))
    await clock.advance(5)
    assert not waiting.done()
    assert proctable.kill(named, signal.SIGKILL)
    other.wait()
    await clock.advance(1)
    await asyncio.wait_for(waiting, PATIENCE)
    assert not proctable.kill(named, signal.SIGKILL)


@pytest.mark.parametrize("group", [1, 0, -1])
def test_signal_to_all_processes_is_refused(group: int) -> None:
    with pytest.raises(ValueError, match="not a process group of a child"):
        kill_group(group, signal.SIGCONT)


@pytest.mark.process
def test_program_name_with_parentheses_is_parsed(tmp_path: "os.PathLike[str]") -> None:
    odd = os.path.join(tmp_path, "a) S 1 (b")
    os.symlink("/bin/sleep", odd)
    other = subprocess.Popen([odd, "300"])
    try:
        assert start_mark(other.pid).rpartition("/")[2].isdigit()
        assert Process(other.pid, start_mark(other.pid)) in proctable.descendants(os.getpid())
    finally:
        other.kill()
        other.wait()


def test_without_proc_ps_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proctable, "_HAS_PROC", False)
    answers = {"4": "S    Sat Nov 15 08:19:01 2025\n", "5": "Z+   Sat Nov 15 08:19:01 2025\n", "6": ""}

    def run(argv: list[str], **options: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(argv, 0, answers[argv[-1]], "")

    monkeypatch.setattr(subprocess, "run", run)
    assert [start_mark(pid) for pid in (4, 5, 6)] == ["Sat Nov 15 08:19:01 2025", "", ""]
    assert proctable.descendants(4) == []


def test_own_process_has_a_start_mark() -> None:
    assert start_mark(os.getpid()) == start_mark(os.getpid()) != ""
    assert start_mark(1) != start_mark(os.getpid())
    assert sys.platform != "linux" or "/" in start_mark(os.getpid())
