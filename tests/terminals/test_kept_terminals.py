"""Terminals whose programs run at a keeper: what the next gateway finds of them. The keeper is one in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead.keeper.client import KeeperLost
from fairlead.model.agents import Exit
from fairlead.terminals import children
from fairlead.terminals.api import FoundUrl, Program, Size, TerminalOutput
from fairlead.terminals.memo import decode_memo
from fairlead.terminals.pty_session import PtySession
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.screen.emulator import Emulator
from fairlead_testing.clock import ManualClock
from patience import PATIENCE
from server.fakes import until
from terminals.fake_keeper import FakeKeeper
from terminals.restarts import SMALL, Gateways, printed, shows_all
from terminals.streams import state


@pytest.fixture
async def gateways() -> AsyncIterator[Gateways]:
    made = Gateways()
    yield made
    await made.terminals.close()
    assert made.clock.waiting == 0


def same_as(stream: bytes, size: Size = SMALL) -> Any:
    whole = Emulator(size.columns, size.rows)
    whole.feed(stream)
    return state(whole)


async def first_output(terminal: PtySession, raw: bool = False) -> TerminalOutput:
    watching = terminal.watch("late", raw)
    output = await asyncio.wait_for(anext(watching), PATIENCE)
    await watching.aclose()
    return output


STREAM = b"".join(b"line %d\r\n" % number for number in range(30)) + b"\x1b[?1049h\x1b[2;3H\x1b[31mred\x1b[?2004h"


@pytest.mark.parametrize("saved", [0, 7, len(STREAM) - 3, len(STREAM)])
async def test_screen_and_scrollback_are_those_of_an_undisturbed_terminal(gateways: Gateways, saved: int) -> None:
    terminal = await gateways.open()
    await printed(terminal, gateways.program, STREAM[:saved])
    await gateways.clock.advance(children.SAVE_SECONDS)
    assert gateways.program.base == saved
    await printed(terminal, gateways.program, STREAM[saved:])
    left = await gateways.restart()
    gateways.program.print(b"\x1b[4;1Hprinted while away")
    again = left.adopted("one")
    assert again is not None and again.pid == terminal.pid
    await shows_all(again, gateways.program)
    assert state(again._state.emulator) == same_as(STREAM + b"\x1b[4;1Hprinted while away")
    await printed(again, gateways.program, b"\x1b[?1049l$ ")
    assert state(again._state.emulator) == same_as(STREAM + b"\x1b[4;1Hprinted while away\x1b[?1049l$ ")


async def test_state_is_saved_once_a_second_while_something_happens(gateways: Gateways) -> None:
    terminal = await gateways.open()
    saved = gateways.program.memos
    for _ in range(5):
        await printed(terminal, gateways.program, b"x")
        await gateways.clock.advance(children.SAVE_SECONDS / 10)
    assert gateways.program.memos == saved
    await gateways.clock.advance(children.SAVE_SECONDS)
    assert gateways.program.memos == saved + 1 and gateways.program.base == 5
    await gateways.clock.advance(10 * children.SAVE_SECONDS)
    assert gateways.program.memos == saved + 1


async def test_state_is_saved_after_much_output(gateways: Gateways) -> None:
    terminal = await gateways.open()
    await printed(terminal, gateways.program, b"0123456789\r\n" * (children.SAVE_BYTES // 6))
    assert gateways.program.base >= children.SAVE_BYTES
    assert gateways.program.memos <= 4


async def test_state_is_saved_when_it_is_used(gateways: Gateways) -> None:
    terminal = await gateways.open()
    await gateways.clock.advance(100)
    await terminal.write(b"x")
    await gateways.clock.advance(children.SAVE_SECONDS)
    await gateways.clock.advance(50)
    again = await gateways.restored()
    assert gateways.clock.monotonic() - again.touched == 50 + children.SAVE_SECONDS


async def test_query_is_answered_once(gateways: Gateways) -> None:
    terminal = await gateways.open()
    await printed(terminal, gateways.program, b"ab\x1b[6n\x1b[c")
    await until(lambda: gateways.program.typed == [b"\x1b[1;3R", b"\x1b[?62;22c"])
    await gateways.restart()
    gateways.program.print(b"c\x1b[6n")
    await until(lambda: gateways.program.typed[2:] == [b"\x1b[1;4R"])
    await gateways.restored()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(gateways.program.typed) == 3


async def test_next_query_after_a_saved_answer_is_answered(gateways: Gateways) -> None:
    terminal = await gateways.open()
    await printed(terminal, gateways.program, b"ab\x1b[6n")
    await gateways.clock.advance(children.SAVE_SECONDS)
    again = await gateways.restored()
    await printed(again, gateways.program, b"c\x1b[6n")
    await until(lambda: gateways.program.typed == [b"\x1b[1;3R", b"\x1b[1;4R"])


async def test_many_queries_are_answered_once(gateways: Gateways) -> None:
    """The keeper remembers 1,000 keys."""
    terminal = await gateways.open()
    for _ in range(30):
        await printed(terminal, gateways.program, b"\x1b[5n" * 50)
        await until(lambda: len(gateways.program.typed) % 50 == 0)
    memo = decode_memo(gateways.program.memo)
    assert memo is not None and len(gateways.program.typed) == 1500
    assert 1500 - memo.answers < children.SAVE_ANSWERS + 50


async def test_answers_to_a_program_that_does_not_read_are_bounded(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = await gateways.open()
    reads = asyncio.Event()
    written: list[bytes] = []

    async def write(data: bytes, key: str = "") -> None:
        await reads.wait()
        written.append(data)

    child = terminal._child
    assert isinstance(child, children.KeptChild)
    monkeypatch.setattr(child._process, "write", write)
    await printed(terminal, gateways.program, b"\x1b[5n" * 1000)
    reads.set()
    await until(lambda: len(written) == children.WAITING_ANSWERS)


async def test_last_size_is_restored_and_reaches_the_program(gateways: Gateways) -> None:
    terminal = await gateways.open()
    await printed(terminal, gateways.program, b"one\r\n")
    terminal.resize(Size(30, 7), "me")
    gateways.program.size = 40, 5  # the gateway was killed before it could set it
    again = await gateways.restored()
    assert again.screen.size == Size(30, 7) and gateways.program.size == (30, 7)
    assert not again.intact


async def test_agents_terminal_returns_to_its_own_size(gateways: Gateways) -> None:
    """As always when its last watcher leaves."""
    terminal = await gateways.open(shell=False)
    terminal.resize(Size(30, 7), "me")
    again = await gateways.restored()
    assert again.screen.size == SMALL and gateways.program.size == (40, 5)


async def test_raw_watcher_gets_all_output_of_before(gateways: Gateways) -> None:
    terminal = await gateways.open()
    await printed(terminal, gateways.program, b"one\r\n")
    await gateways.clock.advance(children.SAVE_SECONDS)
    await printed(terminal, gateways.program, b"two\r\n")
    again = await gateways.restored()
    assert again.intact
    assert await first_output(again, raw=True) == TerminalOutput(b"one\r\ntwo\r\n", size=SMALL)
    drawn = await first_output(again)
    assert drawn.redraw and b"two" in drawn.data


async def test_found_urls_are_restored_and_not_found_again(gateways: Gateways) -> None:
    terminal = await gateways.open()
    await printed(terminal, gateways.program, b"see https://example.org/a and https://exam")
    terminal.note()
    await printed(terminal, gateways.program, b"ple.o")
    again = await gateways.restored()
    await printed(again, gateways.program, b"rg/b !\r\nhttps://example.org/a !\r\n")
    assert (await first_output(again)).urls == (FoundUrl("https://example.org/a"), FoundUrl("https://example.org/b"))


async def test_url_at_the_end_of_the_output_is_found_after_a_restart(gateways: Gateways) -> None:
    terminal = await gateways.open()
    await printed(terminal, gateways.program, b"see https://example.org/a")
    terminal.note()
    again = await gateways.restored()
    await gateways.clock.advance(1)
    assert (await first_output(again)).urls == (FoundUrl("https://example.org/a"),)


async def test_notes_and_tag_are_restored(gateways: Gateways) -> None:
    terminal = await gateways.open(tag={"epoch": 3})
    terminal.note(one=1, two=[2])
    terminal.note(one=11)
    again = await gateways.restored()
    assert again.notes == {"one": 11, "two": [2]} and again.tag == {"epoch": 3}
    assert (await gateways.restored()).notes == again.notes


async def test_keys_with_a_key_are_typed_once(gateways: Gateways) -> None:
    terminal = await gateways.open()
    await terminal.write(b"make\r", "command")
    again = await gateways.restored()
    await again.write(b"make\r", "command")
    await again.write(b"x")
    assert gateways.program.typed == [b"make\r", b"x"]


async def test_notice_of_the_gateway_is_restored(gateways: Gateways) -> None:
    terminal = await gateways.open()
    terminal.print_notice("[hello]")
    await gateways.clock.advance(children.SAVE_SECONDS)
    assert "[hello]" in (await gateways.restored()).screen.lines


async def test_time_since_the_last_watcher_left_goes_on(gateways: Gateways) -> None:
    terminal = await gateways.open()
    watching = terminal.watch("me")
    await anext(watching)
    await gateways.clock.advance(10)
    await watching.aclose()
    await gateways.clock.advance(100)
    again = await gateways.restored(away_s=50)
    assert again.left is not None and gateways.clock.monotonic() - again.left == 150


async def test_watched_terminal_has_lost_its_watchers_at_the_restart(gateways: Gateways) -> None:
    terminal = await gateways.open()
    watching = terminal.watch("me")
    await anext(watching)
    await gateways.clock.advance(100)
    again = await gateways.restored(away_s=50)
    assert again.left == gateways.clock.monotonic()
    await watching.aclose()


# --- its end


async def test_program_that_ended_meanwhile_shows_its_last_output_and_its_end(gateways: Gateways) -> None:
    await gateways.open()
    left = await gateways.restart()
    gateways.program.print(b"last words\r\n")
    gateways.program.end(Exit(code=7))
    again = left.adopted("one")
    assert again is not None and await again.wait() == Exit(code=7)
    assert "last words" in again.screen.lines and gateways.program.forgotten
    assert left.find("one") is again and left.names() == ()


async def test_ended_program_is_forgotten_by_the_keeper(gateways: Gateways) -> None:
    terminal = await gateways.open()
    gateways.program.end(Exit(code=0))
    await terminal.wait()
    assert gateways.program.forgotten
    assert (await gateways.restart()).restored_names() == ()


async def test_program_of_a_lost_keeper_counts_as_ended(gateways: Gateways, caplog: pytest.LogCaptureFixture) -> None:
    terminal = await gateways.open()
    outputs = terminal.watch("me")
    await anext(outputs)
    gateways.keeper.connect()
    assert await asyncio.wait_for(terminal.wait(), PATIENCE) == Exit()
    assert [output async for output in outputs] == []
    assert "the keeper of a terminal is gone" in caplog.text
    assert await terminal.stop() == Exit()


async def test_stop_ends_a_restored_program(gateways: Gateways) -> None:
    await gateways.open()
    again = await gateways.restored()
    assert (await again.stop()).signal == 1 and gateways.program.forgotten


async def test_detached_programs_continue(gateways: Gateways) -> None:
    terminal = await gateways.open()
    waiting = asyncio.create_task(terminal.wait())
    await printed(terminal, gateways.program, b"hello\r\nhttps://example.org/")
    await gateways.terminals.close(detach=True)
    assert gateways.program.exit is None and gateways.program.data == b""
    memo = decode_memo(gateways.program.memo)
    assert memo is not None and memo.saved.state.drawn
    # It has not ended: its owner must not hear that it has.
    await gateways.clock.advance(10)
    assert terminal.running and not waiting.done() and gateways.clock.waiting == 0
    waiting.cancel()
    assert "hello" in (await gateways.restored()).screen.lines


async def test_closing_without_detaching_ends_the_programs(gateways: Gateways) -> None:
    await gateways.open()
    await gateways.terminals.close()
    assert gateways.program.exit is not None and gateways.program.forgotten


# --- owners


async def test_terminal_that_its_owner_does_not_adopt_is_ended(gateways: Gateways) -> None:
    for name in ("session/a", "session/b"):
        await gateways.open(name)
    terminals = await gateways.restart()
    assert sorted(terminals.names()) == ["session/a", "session/b"]
    adopted = terminals.adopted("session/a")
    assert adopted is not None and terminals.adopted("session/a") is None and terminals.adopted("other") is None
    await terminals.end_unadopted()
    assert adopted.running and terminals.names() == ("session/a",) and terminals.find("session/b") is None
    assert [program.forgotten for program in gateways.keeper.programs] == [False, True]


async def test_terminal_of_a_removed_user_is_not_restored(gateways: Gateways) -> None:
    await gateways.open("user/ann/x", tag={"user": "ann"})
    await gateways.open("user/bob/x", tag={"user": "bob"})
    terminals = await gateways.restart()
    assert terminals.names() == ("user/ann/x",)
    assert terminals.adopted("user/ann/x") is not None
    await terminals.end_unadopted()
    assert [program.forgotten for program in gateways.keeper.programs] == [False, True]


async def test_other_processes_of_the_keeper_are_not_touched(gateways: Gateways) -> None:
    await gateways.open()
    gateways.program.spec.tag["kind"] = "agent"  # type: ignore[index]
    terminals = await gateways.restart()
    await terminals.end_unadopted()
    assert terminals.names() == () and gateways.program.exit is None


async def test_older_program_of_the_same_name_is_ended(gateways: Gateways) -> None:
    await gateways.open()
    await gateways.restart()
    newer = await gateways.keeper.spawn(gateways.program.spec)
    terminals = await gateways.restart()
    adopted = terminals.adopted("one")
    assert adopted is not None and adopted.pid == newer.pid
    await terminals.end_unadopted()
    assert [program.forgotten for program in gateways.keeper.programs] == [True, False]


async def test_name_of_a_restored_terminal_is_in_use(gateways: Gateways) -> None:
    await gateways.open()
    again = await gateways.restored()
    gateways.program.end(Exit(code=0))
    await again.wait()
    await gateways.open()
    assert gateways.terminals.find("one") is not again


# --- memos that cannot be read, keepers that do not answer


@pytest.mark.parametrize("memo", [b"", b"\xc1", b"\x80", b'{"a":1}'])
async def test_terminal_without_a_readable_memo_continues(
    gateways: Gateways, memo: bytes, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    await gateways.open(recording=str(tmp_path / "one.cast"))
    gateways.program.memo = memo
    again = await gateways.restored()
    assert "the screen of a terminal is not restored" in caplog.text
    await printed(again, gateways.program, b"\r\nmore")
    assert again.screen.lines[1] == "more"


@pytest.mark.process
@pytest.mark.parametrize("error", [ConnectionRefusedError("no"), KeeperLost("gone")])
async def test_terminal_is_opened_without_a_keeper_that_does_not_answer(
    error: OSError, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> FakeKeeper:
        raise error

    registry = TerminalRegistry(ManualClock(), 3, keeper=fail)
    if isinstance(error, KeeperLost):
        keeper = FakeKeeper()
        monkeypatch.setattr(keeper, "spawn", fail)
        registry.keeper = keeper.get
    terminal = await registry.open("one", Program(argv=["/bin/sh", "-c", "exit 3"], env={}, cwd="/"))
    assert await asyncio.wait_for(terminal.wait(), PATIENCE) == Exit(code=3)
    assert not terminal.survives and "a terminal will end with the gateway" in caplog.text


# --- recordings


def events(path: Path) -> Sequence[Any]:
    head, *rest = [json.loads(line) for line in path.read_text().splitlines()]
    assert head["version"] == 2
    return rest


def recorded(path: Path) -> str:
    return "".join(text for _, kind, text in events(path) if kind == "o")


async def on_disk(path: Path, holds: Callable[[], bool]) -> None:
    await until(lambda: path.exists() and path.read_bytes().endswith(b"\n") and holds())


async def test_recording_continues_without_a_gap_or_a_repetition(gateways: Gateways, tmp_path: Path) -> None:
    path = tmp_path / "one.cast"
    terminal = await gateways.open(recording=str(path))
    await printed(terminal, gateways.program, b"one ")
    await gateways.clock.advance(children.SAVE_SECONDS)
    for letter in (b"t", b"w", b"o", b" "):
        await printed(terminal, gateways.program, letter)
    await on_disk(path, lambda: recorded(path) == "one two ")
    again = await gateways.restored(away_s=60)
    await printed(again, gateways.program, b"three")
    gateways.program.end(Exit(code=0))
    await again.wait()
    assert recorded(path) == "one two three"
    assert [at for at, _, _ in events(path)][-1] >= 60


async def test_recording_that_was_not_written_completely_continues_with_whole_lines(
    gateways: Gateways, tmp_path: Path
) -> None:
    path = tmp_path / "one.cast"
    terminal = await gateways.open(recording=str(path))
    for text in (b"one ", b"two "):
        await printed(terminal, gateways.program, text)
    await on_disk(path, lambda: recorded(path) == "one two ")
    await gateways.clock.advance(children.SAVE_SECONDS)
    path.write_bytes(path.read_bytes()[:-3])
    again = await gateways.restored()
    await printed(again, gateways.program, b"three")
    await again.stop()
    assert recorded(path) == "one three"


async def test_lost_recording_does_not_stop_the_terminal(
    gateways: Gateways, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "one.cast"
    terminal = await gateways.open(recording=str(path))
    await printed(terminal, gateways.program, b"one ")
    await gateways.clock.advance(children.SAVE_SECONDS)
    path.unlink()
    again = await gateways.restored()
    await printed(again, gateways.program, b"two")
    assert again.screen.lines[0] == "one two" and "a terminal cannot be recorded" in caplog.text


async def test_stopped_recording_is_not_continued(
    gateways: Gateways, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.terminals.recording.MOST_BYTES", 200)
    path = tmp_path / "one.cast"
    terminal = await gateways.open(recording=str(path))
    await printed(terminal, gateways.program, b"x" * 300)
    await gateways.clock.advance(children.SAVE_SECONDS)
    monkeypatch.undo()
    again = await gateways.restored()
    await printed(again, gateways.program, b"more")
    await again.stop()
    assert events(path) == []
