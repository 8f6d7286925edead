"""Processes that are not our children: identified by pid and start mark, and their end is noticed."""

import asyncio
import os
import signal
import subprocess

import pytest

from fairlead.system import process_list, proctable
from fairlead.system.clock import SystemClock
from fairlead.system.process_list import HAS_PROC, read_process
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
        assert not HAS_PROC or start_mark(other.pid).rpartition("/")[2].isdigit()
        assert Process(other.pid, start_mark(other.pid)) in proctable.descendants(os.getpid())
    finally:
        other.kill()
        other.wait()


@pytest.mark.process
def test_ps_lists_the_same_processes_as_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["/bin/sh", "-c", "sleep 300 & wait"], start_new_session=True)
    zombie = subprocess.Popen(["/bin/true"])
    try:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        while not (below := proctable.descendants(child.pid)):
            pass
        listed = {HAS_PROC: _seen(child.pid, zombie.pid)}
        monkeypatch.setattr(process_list, "HAS_PROC", not HAS_PROC)
        listed[not HAS_PROC] = _seen(child.pid, zombie.pid)
        assert listed[True] == listed[False] and listed[True][0] == [below[0].pid]
        assert start_mark(child.pid) == start_mark(child.pid) != start_mark(os.getpid())
        assert start_mark(zombie.pid) == ""
        monkeypatch.undo()
    finally:
        kill_group(child.pid, signal.SIGKILL)
        child.wait()
        zombie.wait()
    assert start_mark(child.pid) == ""


def _seen(leader: int, zombie: int) -> tuple[object, ...]:
    """What the process table says about a leader of a session with one child, and about a zombie."""
    found = read_process(leader)
    dead = read_process(zombie)
    assert found is not None and dead is not None
    children = [process.pid for process in proctable.descendants(leader)]
    members = sorted(process.pid for process in proctable.session_members(leader))
    return children, members, found[:2], found[3:6], dead.is_zombie


def test_own_process_has_a_start_mark() -> None:
    assert start_mark(os.getpid()) == start_mark(os.getpid()) != ""
    assert start_mark(1) != start_mark(os.getpid())
    assert not HAS_PROC or "/" in start_mark(os.getpid())
