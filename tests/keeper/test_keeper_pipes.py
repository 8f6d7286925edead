"""Processes on pipes at a real keeper: their input, output and end, with gateways that come and go."""

import asyncio
import hashlib
import os
import resource
import signal
from pathlib import Path

import pytest

from fairlead.keeper.buffers import ATTENDED, UNATTENDED
from fairlead.keeper.client import KeeperLost
from fairlead.model.agents import Exit
from fairlead.system.descriptors import Descriptors
from fairlead.system.pipes import WRITE_AHEAD, PipeClosed
from fairlead.system.platform import FORCED
from fairlead.system.process import STDERR_TAIL
from fairlead.system.proctable import start_mark
from keeper.running import (
    LONG,
    SHORT,
    Reader,
    answered,
    connected,
    eventually,
    is_known,
    keeper_of,
    keepers,
    kept_at,
    memory_of,
    output_of,
    spawn,
    spawn_python,
    written_by,
)
from patience import PATIENCE

pytestmark = pytest.mark.process

COUNTS = "import sys\nfor i in range(int(sys.argv[1])): print(i, 'x' * 90)"


def lines(count: int) -> bytes:
    return b"".join(b"%d %s\n" % (number, b"x" * 90) for number in range(count))


async def test_bytes_go_both_ways_and_closing_the_input_ends_the_process(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/cat")
    reader = Reader(process)
    await process.write(b"one\n")
    await process.write(b"two\n")
    assert await process.end(LONG) == Exit(code=0)
    assert await reader.end() == b"one\ntwo\n"
    assert not process.running and not is_known(process.pid)


async def test_process_leads_a_group_and_inherits_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "secret")
    keeper = await keeper_of(data)
    shows = "echo $$; env; ls -1 /proc/self/fd; grep SigIgn /proc/self/status; cat /proc/$PPID/environ"
    process = await spawn(keeper, "/bin/sh", "-c", shows, env={"A": "b", "PATH": "/usr/bin:/bin"}, cwd="/usr")
    output = (await output_of(process)).decode().split("\n")
    assert process.pid == process.group == int(output[0])
    forced = [f"{name}={value}\0" for name, value in FORCED.items()]
    assert [line for line in output if "=" in line] == ["A=b", "PATH=/usr/bin:/bin", "PWD=/usr", *forced]
    assert [line for line in output[1:] if line.isdigit()] == ["0", "1", "2", "3"]
    ours = sum(1 << (number - 1) for number in signal.valid_signals())
    ignored = next(line.split()[1] for line in output if line.startswith("SigIgn"))
    assert int(ignored, 16) & ours == 0


async def test_process_gets_the_limits_that_the_gateway_was_started_with(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(Descriptors, "started_with", (321, hard))
    keeper = await keeper_of(data)
    process = await spawn_python(
        keeper, "import resource, sys; sys.stdin.readline(); print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    await process.write(b"\n")
    assert await output_of(process) == f"(321, {hard})\n".encode()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(7)", Exit(code=7)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", Exit(signal=signal.SIGSEGV)),
    ],
)
async def test_exit_is_reported_and_no_zombie_stays(code: str, expected: Exit, data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn_python(keeper, code)
    assert await asyncio.wait_for(process.wait(), PATIENCE) == expected
    assert not is_known(process.pid)


@pytest.mark.parametrize(("argv", "cwd"), [("/nowhere/program", "/"), ("/etc/passwd", "/"), ("/bin/cat", "/nowhere")])
async def test_failed_start_raises_what_it_raises_without_a_keeper(argv: str, cwd: str, data: Path) -> None:
    keeper = await keeper_of(data)
    before = open_files(data)
    with pytest.raises(OSError) as error:
        await spawn(keeper, argv, cwd=cwd)
    assert error.value.filename == (cwd if cwd != "/" else argv)
    assert isinstance(error.value, PermissionError if argv == "/etc/passwd" else FileNotFoundError)
    with pytest.raises(ValueError):
        await spawn(keeper, "a\0b")
    assert open_files(data) == before


def open_files(data: Path) -> int:
    (pid,) = keepers(data)
    return len(os.listdir(f"/proc/{pid}/fd"))


async def test_no_descriptor_is_left_open(data: Path) -> None:
    keeper = await keeper_of(data)
    before = open_files(data)
    for _ in range(3):
        process = await spawn_python(keeper, "print('x')")
        await process.wait()
        process.forget()
    await (await spawn(keeper, "/bin/cat")).end(LONG)
    await eventually(lambda: open_files(data) == before)


async def test_text_that_is_not_unicode_reaches_the_process(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/usr/bin/printf", "%s.%s", os.fsdecode(b"a\xff"), "ü")
    assert await output_of(process) == b"a\xff.\xc3\xbc"


async def test_closed_output_ends_the_reading_of_a_process_that_runs_on(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/sh", "-c", "echo bye; exec >&-; read x")
    assert await output_of(process) == b"bye\n"
    assert process.running
    await keeper.close()
    keeper = await connected(data)
    assert await output_of(keeper.found[0]) == b"bye\n"
    assert await keeper.found[0].end(LONG) == Exit(code=1)


async def test_end_of_stderr_is_kept_and_survives_the_gateway(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn_python(keeper, "import sys; sys.stderr.write('x' * 200_000 + 'end'); print(1); input()")
    await Reader(process).until(b"1")
    await eventually(lambda: process.stderr.endswith("xend"))
    assert len(process.stderr) == STDERR_TAIL
    await keeper.close()
    keeper = await connected(data)
    assert keeper.found[0].stderr == process.stderr
    await keeper.found[0].write(b"\n")
    assert await keeper.found[0].end(LONG) == Exit(code=0, stderr=process.stderr)


# --- gateways that come and go


async def test_next_gateway_finds_the_process_and_reads_from_its_offset(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn_python(keeper, COUNTS + "\ninput()\nprint('end')", "1000", tag={"session": "s", "n": [1]})
    reader = Reader(process)
    await reader.until(lines(1000))
    await process.write(b"", key="first")
    process.ack(100, b"memo")
    await keeper.close()
    with pytest.raises(KeeperLost):
        await reader.end()
    assert not process.running and not keeper.lost.is_set()
    keeper = await connected(data)
    (found,) = keeper.found
    assert (found.number, found.pid, found.started) == (process.number, process.pid, start_mark(process.pid))
    assert (found.tag, found.base, found.memo) == ({"session": "s", "n": [1]}, 100, b"memo")
    assert set(found.keys) == {"first"} and found.running and found.size is None and not found.on_terminal
    reader = Reader(found, 4000)
    await found.write(b"\n")
    assert await reader.end() == lines(1000)[4000:] + b"end\n"
    assert await output_of(found) == lines(1000)[100:] + b"end\n"
    with pytest.raises(ValueError):
        await output_of(found, 99)


async def test_exit_without_a_gateway_is_kept_until_it_is_forgotten(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn_python(keeper, COUNTS + "\nraise SystemExit(3)", "100")
    await keeper.close()
    await eventually(lambda: not is_known(process.pid))
    for _ in range(2):
        keeper = await connected(data)
        (found,) = keeper.found
        assert await found.wait() == Exit(code=3) and not found.running
        assert await output_of(found) == lines(100)
        with pytest.raises(PipeClosed):
            await found.write(b"x")
        await keeper.close()
    keeper = await connected(data)
    keeper.found[0].forget()
    await keeper.close()
    assert await kept_at(data) == []


async def test_gateway_that_closes_loses_nothing_that_it_has_sent(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn_python(keeper, "import os\nwhile True: os.write(1, b'x' * 65536)")
    await Reader(process).until(b"x")
    writing = asyncio.create_task(process.write(bytes(WRITE_AHEAD - 1), key="large"))
    await asyncio.sleep(0)
    # The keeper has output to send, and input to receive.
    process.ack(1, b"last")
    await keeper.close()
    with pytest.raises(KeeperLost):
        await writing
    keeper = await connected(data)
    (found,) = keeper.found
    assert (set(found.keys), found.memo) == ({"large"}, b"last")
    await found.end(SHORT)


async def test_new_connection_replaces_the_old_one(data: Path) -> None:
    first = await keeper_of(data)
    process = await spawn(first, "/bin/cat")
    reader = Reader(process)
    waiting = asyncio.create_task(process.wait())
    second = await keeper_of(data)
    await asyncio.wait_for(first.lost.wait(), PATIENCE)
    for work in (reader.task, waiting, process.write(b"x"), process.end(LONG), spawn(first, "/bin/cat")):
        with pytest.raises(KeeperLost):
            await work
    (found,) = second.found
    await found.write(b"still here\n")
    await Reader(found).until(b"still here\n")
    await second.close()
    assert len(keepers(data)) == 1


# --- pace


async def test_process_that_floods_without_a_gateway_waits_and_the_keeper_stays_small(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn_python(keeper, "import os\nfor _ in range(2000): os.write(1, b'x' * 65536)")
    await keeper.close()
    (pid,) = keepers(data)
    await eventually(lambda: written_by(process.pid) >= UNATTENDED)
    keeper = await connected(data)
    (found,) = keeper.found
    await answered(keeper)
    # The rest is in the pipe.
    assert UNATTENDED <= written_by(process.pid) < UNATTENDED + (1 << 20)
    assert memory_of(pid) < 3 * UNATTENDED + (20 << 20)
    taken = 0

    async def take(batch: bytes) -> None:
        nonlocal taken
        taken += len(batch)
        found.ack(taken)

    reading = asyncio.create_task(found.read(take))
    assert await found.wait() == Exit(code=0)
    await asyncio.wait_for(reading, PATIENCE)
    assert taken == 2000 * 65536 and memory_of(pid) < ATTENDED


async def test_slow_reader_slows_its_own_process_and_no_other(data: Path) -> None:
    keeper = await keeper_of(data)
    flood = await spawn_python(keeper, "import os\nwhile True: os.write(1, b'x' * 65536)")
    taken = asyncio.Event()

    async def take(batch: bytes) -> None:
        taken.set()
        await asyncio.Event().wait()

    stuck = asyncio.create_task(flood.read(take))
    await asyncio.wait_for(taken.wait(), PATIENCE)
    other = await spawn_python(keeper, COUNTS, "100000")
    assert await output_of(other) == lines(100_000)
    (pid,) = keepers(data)
    assert memory_of(pid) < 4 * UNATTENDED + (30 << 20)
    stuck.cancel()
    await flood.end(SHORT)


async def test_large_record_is_read_before_its_first_acknowledgement(data: Path) -> None:
    keeper = await keeper_of(data)
    size = 3 * UNATTENDED
    process = await spawn_python(keeper, f"import sys; sys.stdout.write('x' * {size})")
    assert await output_of(process) == b"x" * size
    await keeper.close()
    keeper = await connected(data)
    assert len(await output_of(keeper.found[0], 100)) == size - 100


async def test_writers_wait_for_a_process_that_does_not_read(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn_python(
        keeper, "import sys, time\nsys.stdout.write('up'); sys.stdout.flush()\ntime.sleep(600)"
    )
    await Reader(process).until(b"up")
    first = asyncio.create_task(process.write(bytes(WRITE_AHEAD)))
    await asyncio.sleep(0)
    second = asyncio.create_task(process.write(b"x"))
    process.offer(b"dropped")
    await answered(keeper)
    assert not first.done() and not second.done()
    process.close_input()
    for writer in (first, second):
        with pytest.raises(PipeClosed):
            await asyncio.wait_for(writer, PATIENCE)
    with pytest.raises(PipeClosed):
        await process.write(b"x")
    await process.end(SHORT)


async def test_large_input_arrives_whole_and_a_cancelled_writer_leaves_no_half(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn_python(
        keeper,
        "import sys, hashlib\nsys.stdin.buffer.readline()\nprint(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())",
    )
    whole = b"begin\n" + bytes(range(256)) * 20_000
    writer = asyncio.create_task(process.write(whole))
    await asyncio.sleep(0)
    writer.cancel()
    await process.write(b"rest")
    reader = Reader(process)
    process.close_input()
    assert (await reader.end()).decode().strip() == hashlib.sha256(whole[6:] + b"rest").hexdigest()
    await process.wait()


async def test_key_is_heard_once_however_often_it_is_sent(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/cat")
    for _ in range(2):
        await process.write(b"a\n", key="a")
    await asyncio.gather(*(process.write(b"b\n", key="b") for _ in range(3)))
    await keeper.close()
    keeper = await connected(data)
    (found,) = keeper.found
    await found.write(b"a\n", key="a")
    await found.write(b"c\n", key="c")
    assert await found.end(LONG) == Exit(code=0)
    assert await output_of(found) == b"a\nb\nc\n"
    await found.write(b"a\n", key="a")


# --- the end


async def test_process_that_ignores_signals_is_killed_with_its_descendants(data: Path) -> None:
    keeper = await keeper_of(data)
    code = (
        "import os, signal, sys, time\nsignal.signal(15, signal.SIG_IGN)\n"
        "if os.fork() == 0: os.setsid()\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    )
    process = await spawn_python(keeper, code)
    reader = Reader(process)
    await eventually(lambda: reader.output.count(b"\n") == 2)
    assert await asyncio.wait_for(process.end(SHORT), PATIENCE) == Exit(signal=signal.SIGKILL)
    pids = [int(word) for word in reader.output.split()]
    await eventually(lambda: not any(map(start_mark, pids)))
    await reader.end()


async def test_stop_goes_on_when_the_gateway_is_gone(data: Path) -> None:
    keeper = await keeper_of(data)
    code = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint(1, flush=True)\ntime.sleep(600)"
    process = await spawn_python(keeper, code)
    await Reader(process).until(b"1")
    ending = asyncio.create_task(process.end(SHORT))
    await asyncio.sleep(0)
    await keeper.close()
    with pytest.raises(KeeperLost):
        await ending
    await eventually(lambda: not is_known(process.pid))
    keeper = await connected(data)
    assert await keeper.found[0].wait() == Exit(signal=signal.SIGKILL)


async def test_rest_of_the_group_ends_with_the_process(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/sh", "-c", "sleep 600 & echo $!", env={"PATH": "/usr/bin:/bin"})
    (left,) = map(int, (await output_of(process)).split())
    assert await process.wait() == Exit(code=0)
    await eventually(lambda: not start_mark(left))


async def test_stranger_that_holds_the_pipe_does_not_delay_the_end(data: Path) -> None:
    keeper = await keeper_of(data)
    code = "import os, time\nif pid := os.fork(): print(pid)\nelse: os.setsid(); time.sleep(600)"
    process = await spawn_python(keeper, code)
    stranger = int(await output_of(process))
    assert await process.wait() == Exit(code=0)
    os.kill(stranger, signal.SIGKILL)


async def test_cancelled_start_leaves_no_process(data: Path) -> None:
    keeper = await keeper_of(data)
    starting = asyncio.create_task(spawn(keeper, "/bin/sleep", "600"))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    log = data / "keeper.log"
    await eventually(lambda: "has ended" in log.read_text())
    await answered(keeper)
    await keeper.close()
    assert await kept_at(data) == []


async def test_process_without_a_gateway_is_ended_in_time(data: Path) -> None:
    keeper = await keeper_of(data)
    short = await spawn(keeper, "/bin/cat", orphan_s=0.01)
    long = await spawn(keeper, "/bin/cat")
    await answered(keeper)
    assert is_known(short.pid)
    await keeper.close()
    await eventually(lambda: "process 1 is forgotten" in (data / "keeper.log").read_text())
    assert not is_known(short.pid)
    keeper = await connected(data)
    assert [found.pid for found in keeper.found] == [long.pid]
