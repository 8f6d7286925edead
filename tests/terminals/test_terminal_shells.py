"""Features of a shell that an agent's terminal lacks: it waits for slow watchers, keeps its last bytes, is recorded."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.config import load
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.terminals import pty_session as live
from fairlead.terminals import recording
from fairlead.terminals.api import JoinShell, Program, Size, Terminal, TerminalOutput
from fairlead.terminals.pty_session import LAG_SECONDS
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.screen.emulator import Emulator
from fairlead.terminals.screen.scrollback import Scrollback
from fairlead.terminals.shells import ShellSettings, UserShells, shell_environment
from fairlead.terminals.subscriber import LAGGING_BYTES, WAITING_BYTES
from fairlead.wiring.settings import shell_settings
from fairlead_testing.clock import ManualClock
from patience import PATIENCE
from server.fakes import until

pytestmark = pytest.mark.process

ENV = {"PATH": os.environ.get("PATH", os.defpath), "PS1": "$ ", "TERM": "xterm-256color"}
SMALL = Size(40, 5)
ANN = Identity("key", "ann", "Ann's browser", frozenset({"terminal"}))


@pytest.fixture
async def terminals() -> AsyncIterator[TerminalRegistry]:
    registry = TerminalRegistry(SystemClock(), 3, StopTimeouts(close=1, terminate=1))
    yield registry
    await registry.close()


@pytest.fixture
async def still() -> AsyncIterator[tuple[ManualClock, TerminalRegistry]]:
    """Terminals for which no time passes."""
    clock = ManualClock()
    registry = TerminalRegistry(clock, 3, StopTimeouts(close=1, terminate=1))
    yield clock, registry
    await registry.close()


def program(script: str, size: Size = SMALL, **more: Any) -> Program:
    return Program(argv=["/bin/sh", "-c", script], env=ENV, cwd="/", size=size, shell=True, **more)


async def ended(terminal: Terminal) -> Exit:
    return await asyncio.wait_for(terminal.wait(), PATIENCE)


FLOOD = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); echo line $i; done"


async def test_shell_waits_for_a_slow_watcher_and_nothing_is_lost(
    terminals: TerminalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The watcher reads ten times a second: each time the shell could have printed more than its buffer may hold.
    monkeypatch.setattr(live, "GATHER_SECONDS", 0.1)
    long = "." * 100
    flood = f"i=0; while [ $i -lt 15000 ]; do i=$((i+1)); echo {long} $i; done"
    terminal = await terminals.open("one", program(flood, size=Size(120, 5)))
    outputs = [output async for output in terminal.watch("slow", raw=True)]
    assert not any(output.redraw for output in outputs)
    lines = b"".join(output.data for output in outputs).decode().split("\r\n")
    assert lines == [*(f"{long} {number}" for number in range(1, 15001)), ""]


async def test_shell_waits_only_while_all_watchers_lag(still: tuple[ManualClock, TerminalRegistry]) -> None:
    clock, registry = still
    terminal = await registry.open("one", program(f"{FLOOD}; echo done; read x"))
    stuck = terminal.watch("stuck", raw=True)
    await anext(stuck)
    # This watcher reads nothing more: the program is paused, and continues when another watcher reads.
    await until(lambda: clock.waiting == 1)
    shown = terminal.screen.version
    for _ in range(50):
        await asyncio.sleep(0)
    assert terminal.screen.version == shown
    reader = terminal.watch("reader")
    shows = Emulator(40, 5)
    async with asyncio.timeout(PATIENCE):
        while "done" not in shows.lines():
            shows.feed((await anext(reader)).data)
    # The output that waited for the stuck watcher was dropped.
    assert (await anext(stuck)).redraw
    await stuck.aclose()
    await reader.aclose()


async def test_watcher_that_reads_nothing_is_not_waited_for_again(still: tuple[ManualClock, TerminalRegistry]) -> None:
    clock, registry = still
    terminal = await registry.open("one", program(f"{FLOOD}; echo done; read x"))
    stuck = terminal.watch("stuck", raw=True)
    await anext(stuck)
    await until(lambda: clock.waiting == 1)
    await clock.advance(LAG_SECONDS)
    async with asyncio.timeout(PATIENCE):
        while "done" not in terminal.screen.lines:
            await terminal.changed(terminal.screen.version)
    output = await anext(stuck)
    assert output.redraw and b"done" in output.data and len(output.data) < WAITING_BYTES
    await stuck.aclose()


async def test_paused_shell_can_be_ended_at_once(still: tuple[ManualClock, TerminalRegistry]) -> None:
    clock, registry = still
    terminal = await registry.open("one", program("yes"))
    stuck = terminal.watch("stuck", raw=True)
    await anext(stuck)
    await until(lambda: clock.waiting == 1)
    await asyncio.wait_for(registry.close(), PATIENCE)
    assert not terminal.running
    await stuck.aclose()


async def test_output_soon_after_another_is_held_back_to_be_batched(
    terminals: TerminalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "GATHER_SECONDS", 3600)
    terminal = await terminals.open("one", program("read x"))
    watching = terminal.watch("me", raw=True)
    # The first output is sent at once.
    assert (await asyncio.wait_for(anext(watching), PATIENCE)).size == Size(40, 5)
    following = asyncio.create_task(anext(watching))
    for word in ("one ", "two ", "three"):
        terminal.print_notice(word)
        for _ in range(10):
            await asyncio.sleep(0)
    assert not following.done()
    following.cancel()
    await asyncio.wait({following})


async def test_collected_output_is_sent_together(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", program("read x"))
    watching = terminal.watch("me", raw=True)
    await anext(watching)
    for word in ("one ", "two ", "three"):
        terminal.print_notice(word)
    assert (await asyncio.wait_for(anext(watching), PATIENCE)).data == b"one two three"
    await watching.aclose()


async def test_notice_of_the_gateway_is_seen_by_all_and_by_late_watchers(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", program("read x"))
    touched = terminal.touched
    terminal.print_notice("\r\n[hello]\r\n")
    assert "[hello]" in terminal.screen.lines and terminal.touched == touched
    late = terminal.watch("late")
    assert b"[hello]" in (await anext(late)).data
    await late.aclose()


# --- the last bytes


PIECES = st.lists(st.sampled_from([b"abc", b"\x1b[31mred\x1b[0m", "é漢".encode(), b"\x1b]0;title\x07", b"\r\n" * 900]))


@given(PIECES, st.integers(1, 20_000))
def test_scrollback_is_bounded_and_cut_between_pieces(pieces: list[bytes], most: int) -> None:
    tail = Scrollback(most)
    assert tail.empty
    for piece in pieces:
        tail.add(piece)
    kept = tail.data()
    # A block and the last piece added to it may exceed the bound: a single piece is never cut.
    assert len(kept) <= most + 4096 + 1800
    ends = [b"".join(pieces[start:]) for start in range(len(pieces) + 1)]
    assert kept in ends and tail.empty == (not pieces)
    if sum(map(len, pieces)) <= most:
        assert kept == b"".join(pieces)


async def test_a_raw_watcher_gets_the_last_bytes_and_others_the_screen(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", program("printf '\\033[31mred\\033[0m\\n'; echo ready; read x"))
    async with asyncio.timeout(PATIENCE):
        while "ready" not in terminal.screen.lines:
            await terminal.changed(terminal.screen.version)
    raw, drawn = terminal.watch("raw", raw=True), terminal.watch("drawn")
    assert await anext(raw) == TerminalOutput(b"\x1b[31mred\x1b[0m\r\nready\r\n", size=Size(40, 5))
    assert (await anext(drawn)).redraw
    await raw.aclose()
    await drawn.aclose()


def test_a_watcher_that_lags_has_room_before_it_is_dropped() -> None:
    assert LAGGING_BYTES + 64 * 1024 < WAITING_BYTES


# --- recordings


async def test_a_recording_is_an_asciicast(terminals: TerminalRegistry, tmp_path: Path) -> None:
    path = tmp_path / "recordings" / "one.cast"
    terminal = await terminals.open("one", program("echo é; read x; echo got $x", recording=str(path)))
    async with asyncio.timeout(PATIENCE):
        while "é" not in terminal.screen.lines:
            await terminal.changed(terminal.screen.version)
    terminal.resize(Size(50, 6), "me")
    await terminal.write(b"it\r")
    await ended(terminal)
    head, *events = [json.loads(line) for line in path.read_text().splitlines()]
    assert (head["version"], head["width"], head["height"]) == (2, 40, 5)
    assert head["env"] == {"SHELL": "/bin/sh", "TERM": "xterm-256color"} and isinstance(head["timestamp"], int)
    assert {kind for _, kind, _ in events} == {"o", "r"}
    assert [text for _, kind, text in events if kind == "r"] == ["50x6"]
    assert "".join(text for _, kind, text in events if kind == "o") == "é\r\nit\r\ngot it\r\n"
    times = [at for at, _, _ in events]
    assert times == sorted(times) and times[0] >= 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_shell_starts_even_if_its_recording_cannot_begin(
    terminals: TerminalRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    terminal = await terminals.open("one", program("exit 4", recording=str(tmp_path / "file" / "one.cast")))
    assert await ended(terminal) == Exit(code=4)
    assert "a terminal cannot be recorded" in caplog.text


async def test_recording_ends_at_its_limit_and_the_shell_continues(
    terminals: TerminalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording, "MOST_BYTES", 2000)
    path = tmp_path / "one.cast"
    terminal = await terminals.open("one", program(f"{FLOOD}; exit 5", recording=str(path)))
    assert await ended(terminal) == Exit(code=5)
    assert path.stat().st_size <= 2000 and "the recording of a terminal was stopped" in caplog.text
    for line in path.read_text().splitlines():
        json.loads(line)


async def test_full_disk_ends_only_the_recording(
    terminals: TerminalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(fd: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording, "_write_all", full)
    terminal = await terminals.open("one", program("echo hello; exit 6", recording=str(tmp_path / "one.cast")))
    assert await ended(terminal) == Exit(code=6)
    assert "the recording of a terminal was stopped" in caplog.text


async def test_slow_disk_ends_only_the_recording(
    terminals: TerminalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording, "UNWRITTEN_BYTES", 300)
    path = tmp_path / "one.cast"
    terminal = await terminals.open("one", program("read x; exit 8", recording=str(path)))
    terminal.print_notice("x" * 400)
    terminal.print_notice("after")
    await terminal.write(b"\r")
    assert await ended(terminal) == Exit(code=8)
    assert "the recording of a terminal was stopped" in caplog.text
    assert [json.loads(line)["version"] for line in path.read_text().splitlines()] == [2]


async def test_shells_are_recorded_if_configured(terminals: TerminalRegistry, tmp_path: Path) -> None:
    settings = ShellSettings(program="/bin/sh", env=ENV, recordings=str(tmp_path / "recordings"))
    shells = UserShells(terminals, ManualClock(), settings, lambda path: "/")
    await shells.join(Identity("k", "a/../b", "A", frozenset()), JoinShell(name="x", codec=_codec()))
    assert [path.name for path in (tmp_path / "recordings").iterdir()] == ["1700000000000-a_.._b-x.cast"]
    await shells.close()


# --- shells of users


def _codec() -> Any:
    return None


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "x" * 65, "a b", "é", "a\n"])
async def test_invalid_name_is_refused(terminals: TerminalRegistry, name: str) -> None:
    shells = UserShells(terminals, SystemClock(), ShellSettings(program="/bin/sh", env=ENV), lambda path: "/")
    with pytest.raises(BadRequest):
        await shells.join(ANN, JoinShell(name=name, codec=_codec()))
    await shells.close()


async def test_shells_of_a_removed_user_end(terminals: TerminalRegistry) -> None:
    shells = UserShells(terminals, SystemClock(), ShellSettings(program="/bin/sh", env=ENV), lambda path: "/")
    bob = Identity("b", ANN.user + "2", "B", frozenset())
    for who in (ANN, bob):
        await shells.join(who, JoinShell(name="x", codec=_codec()))
    await shells.forget(ANN.user)
    assert shells.find(f"user/{ANN.user}/x") is None
    assert shells.find(f"user/{bob.user}/x") is not None
    await shells.close()


def test_environment_is_built_from_scratch() -> None:
    secrets = {"FAIRLEAD_TOKEN": "x", "ANTHROPIC_API_KEY": "x", "AWS_SECRET_ACCESS_KEY": "x", "SSH_AUTH_SOCK": "/x"}
    found = shell_environment({"PATH": "/bin", "HOME": "/home/ann", "TERM": "dumb"} | secrets)
    terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    assert found == {"PATH": "/bin", "HOME": "/home/ann", "LC_ALL": "C.UTF-8"} | terminal
    assert "LC_ALL" not in shell_environment({"LANG": "de_DE.UTF-8"})


def test_settings_of_shells(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "SHELL": "/bin/zsh"}
    plain = load(env, {"data": str(tmp_path)}).config
    assert shell_settings(plain, env).program == "/bin/zsh"
    assert shell_settings(plain, {}).program == "/bin/bash"
    assert shell_settings(plain, env).idle_s == 1800 and shell_settings(plain, env).recordings == ""
    more = {"data": str(tmp_path), "shell": "/bin/fish", "terminal_idle_minutes": 5, "record_terminals": True}
    chosen = shell_settings(load(env, more).config, env)
    assert (chosen.program, chosen.idle_s, chosen.recordings) == ("/bin/fish", 300, f"{tmp_path}/recordings")
