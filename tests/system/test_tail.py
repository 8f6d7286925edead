"""Following a file: no byte is lost or read twice, whatever happens to the file and its folders."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asyncinotify import Inotify

from fairlead.system import tail as tail_module
from fairlead.system.clock import SystemClock
from fairlead.system.tail import FileTail
from fairlead_testing.clock import ManualClock
from patience import PATIENCE


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


async def read_until(tail: FileTail, wanted: bytes, before: bytes = b"") -> None:
    seen = before
    async with asyncio.timeout(PATIENCE):
        while seen != wanted:
            data = tail.read()
            seen += data
            assert wanted.startswith(seen), seen
            if not data:
                await tail.changed()


def later(action: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_later(0.02, action)


async def test_appended_bytes_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old")
    with FileTail(path, clock=SystemClock()) as tail:
        await read_until(tail, b"old")
        later(lambda: append(path, b"new"))
        await read_until(tail, b"new")
        assert tail.offset == 6
        assert tail.read() == b""
        assert tail.generation == 0


async def test_reading_begins_at_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    with FileTail(path, clock=SystemClock(), offset=4) as tail:
        assert tail.read(limit=3) == b"456"
        assert tail.read() == b"789"


async def test_file_and_its_folders_may_be_created_later(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c" / "log"
    with FileTail(path, clock=SystemClock()) as tail:
        assert tail.read() == b""

        def make() -> None:
            path.parent.parent.mkdir(parents=True)
            later(make_the_last)

        def make_the_last() -> None:
            path.parent.mkdir()
            later(lambda: append(path, b"first"))

        later(make)
        await read_until(tail, b"first")
        later(lambda: append(path, b"second"))
        await read_until(tail, b"second")
        assert tail.generation == 0


async def test_an_append_between_a_read_and_the_wait_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"")
    with FileTail(path, clock=SystemClock()) as tail:
        for number in range(50):
            assert tail.read() == b""
            append(path, b"%d" % number)
            await read_until(tail, b"%d" % number)


async def test_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"long content")
    with FileTail(path, clock=SystemClock()) as tail:
        await read_until(tail, b"long content")
        later(lambda: path.write_bytes(b"cut"))
        await read_until(tail, b"cut")
        assert tail.generation >= 1


async def test_a_replaced_file_is_read_from_its_start_after_the_old_one_s_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one")
    new = tmp_path / "new"
    new.write_bytes(b"three")
    with FileTail(path, clock=SystemClock()) as tail:
        await read_until(tail, b"one")
        append(path, b"two")
        later(lambda: os.replace(new, path))
        await read_until(tail, b"twothree")
        assert tail.generation == 1
        later(lambda: append(path, b"four"))
        await read_until(tail, b"four")


async def test_removed_file_may_be_created_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log"
    path.parent.mkdir()
    path.write_bytes(b"one")
    with FileTail(path, clock=SystemClock()) as tail:
        await read_until(tail, b"one")
        path.unlink()
        path.parent.rmdir()
        assert tail.read() == b""

        def again() -> None:
            path.parent.mkdir()
            append(path, b"two")

        later(again)
        await read_until(tail, b"two")


@pytest.mark.linux
async def test_folder_removed_while_the_watch_is_set_is_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "log"
    path.parent.mkdir()
    add_watch = Inotify.add_watch
    calls = 0

    def slow_add(self: Inotify, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:  # between the check and the watch
            path.parent.rmdir()
        watch = add_watch(self, *args)
        if calls == 2:  # between the watch and the second check
            path.parent.mkdir()
        return watch

    monkeypatch.setattr(Inotify, "add_watch", slow_add)
    with FileTail(path, clock=SystemClock()) as tail:
        later(lambda: append(path, b"one"))
        await read_until(tail, b"one")
    assert calls > 2


async def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one")
    before = len(os.listdir("/proc/self/fd"))
    with FileTail(path, clock=SystemClock()) as tail:
        tail.read()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(tail.changed(), 0.01)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_watch_that_cannot_be_set_leaves_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Inotify, *args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Inotify, "add_watch", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with FileTail(tmp_path / "log", clock=ManualClock()) as tail:
        assert tail.read() == b""
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("why", ["not linux", "no more watches"])
async def test_file_is_polled_when_the_kernel_does_not_notify(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(24, "Too many open files")

    if why == "not linux":
        monkeypatch.setattr(sys, "platform", "darwin")
    else:
        monkeypatch.setattr(tail_module, "_Watch", refuse)
    path = tmp_path / "log"
    clock = ManualClock()
    with FileTail(path, clock=clock) as tail:
        assert tail.read() == b""
        append(path, b"one")
        waiting = asyncio.create_task(tail.changed())
        await clock.advance(0.5)
        assert waiting.done()
        assert tail.read() == b"one"
