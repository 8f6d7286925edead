"""A CLI that outlived its gateway: its transcript is followed from a prompt until the process really ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.claude_driver.harness import MemorySink
from fairlead.agents.claude.transcripts.paths import config_folder, find_transcript, transcript_path
from fairlead.agents.claude.transcripts.recovery import QUIET_SECONDS, end, follow, lines_backwards, place_after
from fairlead.model.agents import Exit, ProcessInfo
from fairlead.model.ids import MessageId, SessionId
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.system.proctable import start_mark
from fairlead_testing.clock import ManualClock
from patience import PATIENCE

SESSION = SessionId("6a1f0b6e-5f5c-4c55-9a44-000000000001")
PROMPT = MessageId("6a1f0b6e-5f5c-4c55-9a44-00000000000a")
STEER = MessageId("6a1f0b6e-5f5c-4c55-9a44-00000000000b")


def row(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def prompt_row(uuid: str, **more: Any) -> bytes:
    return row(type="user", uuid=uuid, message={"role": "user", "content": "hi"}, **more)


def answer_row(text: str, parent: str = PROMPT) -> bytes:
    content = [{"type": "text", "text": text}]
    return row(type="assistant", uuid=f"u-{text}", parentUuid=parent, message={"id": "m", "content": content})


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that lives until a test ends it; reaped by the test, as a process of another parent would be."""
    process = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(300)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def child_of(path: Path, pid: int, started: str) -> ProcessInfo:
    return ProcessInfo(
        session=SESSION,
        pid=pid,
        started=started,
        group=pid,
        agent="claude",
        agent_session=SESSION,
        cwd="/w",
        transcript=str(path),
    )


def dead(path: Path) -> ProcessInfo:
    return child_of(path, os.getpid(), "another/1")


async def run(child: ProcessInfo, after: MessageId | None = PROMPT, config: Path = Path("/nonexistent")) -> MemorySink:
    sink = MemorySink()
    async with asyncio.timeout(PATIENCE):
        await follow(child, config, sink, after, SystemClock())
    assert sink.story[-1] == ("exited", Exit())
    assert len(sink.all("exited")) == 1
    return sink


async def test_rows_after_the_prompt_of_a_dead_process_are_delivered(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    before = prompt_row("old") + answer_row("old answer", "old")
    path.write_bytes(before + prompt_row(PROMPT) + answer_row("one") + answer_row("two"))
    sink = await run(dead(path))
    assert [raw + b"\n" for raw in sink.raws] == [answer_row("one"), answer_row("two")]
    assert {record.origin for record in sink.all("record")} == {"transcript"}


@pytest.mark.process
async def test_a_running_process_is_followed_until_it_exits(tmp_path: Path, sleeper: "subprocess.Popen[bytes]") -> None:
    path = tmp_path / "folder" / "t.jsonl"
    sink = MemorySink()
    child = child_of(path, sleeper.pid, start_mark(sleeper.pid))
    following = asyncio.create_task(follow(child, tmp_path, sink, PROMPT, SystemClock()))
    await asyncio.sleep(0)
    path.parent.mkdir()
    with path.open("ab", buffering=0) as file:
        file.write(prompt_row(PROMPT))
        file.write(answer_row("one"))
        await sink.record_with(b"u-one")
        file.write(answer_row("two")[:10])
        file.write(answer_row("two")[10:])
        await sink.record_with(b"u-two")
        assert not following.done()
        # It writes its last row and dies: the row is not lost.
        file.write(answer_row("last"))
        sleeper.kill()
    await asyncio.wait_for(following, PATIENCE)
    # The prompt itself may be among them if the file was created after we began to look: it is recognised by its uuid.
    names = [json.loads(raw)["uuid"] for raw in sink.raws]
    assert [name for name in names if name != PROMPT] == ["u-one", "u-two", "u-last"]
    assert sink.story[-1] == ("exited", Exit())


async def test_damaged_rows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    nul = b"\0" * 5000
    path.write_bytes(
        prompt_row(PROMPT)
        + b"no json\n\n   \n[1]\n"
        + answer_row("one")
        + nul
        + answer_row("after nul")
        + nul
        + b"\n"
        + b'{"type":"assistant","spliced":{"type"\n'
        + b'{"type":"user","bad":"\xff\xfe"}\n'
        + answer_row("last")
        + answer_row("torn")[:-20]
    )
    sink = await run(dead(path))
    assert [json.loads(raw.decode("utf-8", "replace")).get("uuid") for raw in sink.raws] == [
        "u-one",
        "u-after nul",
        None,
        "u-last",
    ]


async def test_a_last_row_without_its_newline_is_delivered(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(prompt_row(PROMPT) + answer_row("one")[:-1])
    assert [raw + b"\n" for raw in (await run(dead(path))).raws] == [answer_row("one")]


async def test_without_a_file_only_the_exit_is_delivered(tmp_path: Path) -> None:
    assert (await run(dead(tmp_path / "never" / "t.jsonl"))).raws == []


async def test_a_file_elsewhere_is_found_by_the_session_id(tmp_path: Path) -> None:
    path = tmp_path / "projects" / "odd-name" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(prompt_row(PROMPT) + answer_row("one"))
    sink = await run(dead(tmp_path / "projects" / "expected" / f"{SESSION}.jsonl"), config=tmp_path)
    assert len(sink.raws) == 1


# --- where to begin ---------------------------------------------------------------------------------------


def test_the_offset_is_after_the_prompt_row_not_after_rows_that_reference_it(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    head = prompt_row("old") + prompt_row(PROMPT)
    path.write_bytes(head + answer_row("one", parent=PROMPT) + row(type="attachment", uuid="x", parentUuid=PROMPT))
    assert place_after(path, PROMPT) == len(head)


def test_the_offset_of_an_unwritten_prompt_is_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(prompt_row("old") + answer_row("x"))
    assert place_after(path, MessageId("not-there")) == path.stat().st_size
    assert place_after(path, None) == path.stat().st_size
    assert place_after(tmp_path / "no file", PROMPT) == 0


def test_a_steering_message_starts_at_the_prompt_of_its_turn(tmp_path: Path) -> None:
    """The steering message is written when the agent accepts it, after rows that the gateway never saw."""
    path = tmp_path / "t.jsonl"
    head = prompt_row("old") + prompt_row(PROMPT)
    result = row(type="user", uuid="r", toolUseResult={"stdout": "1"}, message={"role": "user", "content": []})
    meta = prompt_row("m", isMeta=True) + prompt_row("s", isSidechain=True)
    steered = row(type="attachment", uuid="a", attachment={"type": "queued_command", "source_uuid": STEER})
    path.write_bytes(head + answer_row("one") + result + meta + steered + answer_row("two"))
    assert place_after(path, STEER) == len(head)
    path.write_bytes(result + steered)
    assert place_after(path, STEER) == 0


@given(st.binary(max_size=60), st.integers(1, 9))
def test_reading_backwards_gives_the_lines_of_the_file(data: bytes, block: int) -> None:
    file = os.memfd_create("lines")
    try:
        os.write(file, data)
        found = list(lines_backwards(file, len(data), block))
    finally:
        os.close(file)
    assert [line for _, line in reversed(found)] == data.split(b"\n")
    assert found[0][0] == len(data)
    for number, (after, line) in enumerate(found[1:], 1):
        assert data[:after].endswith(line + b"\n"), (number, after, line)


# --- where the file is ------------------------------------------------------------------------------------


@pytest.mark.rules("S004-252")
def test_every_non_alphanumeric_character_becomes_a_dash() -> None:
    config = config_folder({"HOME": "/home/ann"})
    assert transcript_path(config, "/home/ann/my.app_x/ü", SESSION) == Path(
        f"/home/ann/.claude/projects/-home-ann-my-app-x--/{SESSION}.jsonl"
    )
    assert config_folder({"HOME": "/home/ann", "CLAUDE_CONFIG_DIR": "/c"}) == Path("/c")


def test_a_long_name_is_cut_and_gets_the_cli_s_hash() -> None:
    """The hashes are those that 2.1.120 and 2.1.325 made for these folders."""
    for word, expected in (("kl5w3euw", "osclm0"), ("z7nutub4", "ffb2m0")):
        cwd = "/".join(["", "tmp", "drv", f"tmp{word}", "w", "x" * 120, "y" * 120])
        name = transcript_path(Path("/c"), cwd, SESSION).parent.name
        assert len(name.removesuffix(f"-{expected}")) == 200
    assert transcript_path(Path("/c"), "/" + "\0" * 300, SESSION).parent.name.startswith("-" * 200)


def test_a_file_is_found_by_its_name(tmp_path: Path) -> None:
    assert find_transcript(tmp_path, SESSION) is None
    there = tmp_path / "projects" / "whatever" / f"{SESSION}.jsonl"
    there.parent.mkdir(parents=True)
    there.touch()
    assert find_transcript(tmp_path, SESSION) == there


# --- ending -----------------------------------------------------------------------------------------------


@pytest.mark.process
async def test_a_process_is_ended_with_its_group(tmp_path: Path, sleeper: "subprocess.Popen[bytes]") -> None:
    child = child_of(tmp_path, sleeper.pid, start_mark(sleeper.pid))
    await end(child, SystemClock(), StopTimeouts())
    assert sleeper.wait() == -signal.SIGTERM
    await end(child, SystemClock(), StopTimeouts())


@pytest.mark.process
async def test_another_process_with_the_same_pid_is_not_touched(sleeper: "subprocess.Popen[bytes]") -> None:
    await end(child_of(Path("/"), sleeper.pid, "another/1"), SystemClock(), StopTimeouts())
    assert sleeper.poll() is None


def stubborn_process() -> "tuple[subprocess.Popen[str], int]":
    """Start a process that ignores SIGTERM; return it and the pid of its child, which runs in its own session."""
    code = (
        "import signal, subprocess, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(subprocess.Popen(['/bin/sleep', '300'], start_new_session=True).pid, flush=True)\n"
        "time.sleep(300)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", code], start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        return process, int(process.stdout.readline())


@pytest.mark.process
async def test_a_process_that_ignores_sigterm_is_killed_with_its_children() -> None:
    process, tool = stubborn_process()
    child = child_of(Path("/"), process.pid, start_mark(process.pid))
    await end(child, SystemClock(), StopTimeouts(terminate=0.05, kill=60))
    assert process.wait() == -signal.SIGKILL
    async with asyncio.timeout(PATIENCE):
        while start_mark(tool):
            await asyncio.sleep(0.01)


@pytest.mark.linux
@pytest.mark.process
async def test_a_dial_in_process_is_ended_when_it_writes_no_more(
    tmp_path: Path, sleeper: "subprocess.Popen[bytes]"
) -> None:
    """Otherwise it would try to reach its gateway for ten minutes, and the session would wait for it."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(prompt_row(PROMPT) + answer_row("one"))
    clock, sink = ManualClock(), MemorySink()
    child = msgspec.structs.replace(child_of(path, sleeper.pid, start_mark(sleeper.pid)), dials_in=True)
    following = asyncio.create_task(follow(child, tmp_path, sink, PROMPT, clock, StopTimeouts(terminate=30.0)))
    await sink.record_with(b"one")
    await clock.advance(QUIET_SECONDS - 1)
    with path.open("ab") as file:
        file.write(answer_row("two"))
    await sink.record_with(b"two")
    await clock.advance(QUIET_SECONDS - 1)
    assert sleeper.poll() is None, "it was heard a moment ago"
    await clock.advance(2)
    assert await asyncio.to_thread(sleeper.wait, 30) == -signal.SIGTERM
    async with asyncio.timeout(PATIENCE):
        while not following.done():
            await clock.advance(1)
    assert sink.all("exited") == [Exit()]
