"""Sandboxed processes at a real keeper: they see neither its socket nor its process, and end as they do elsewhere."""

import asyncio
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from fairlead.keeper.client import Keeper, KeptProcess
from fairlead.model.agents import Exit
from fairlead.model.errors import BadRequest
from fairlead.system.descriptors import Descriptors
from fairlead.system.process_group import StopTimeouts
from fairlead.system.proctable import descendants
from fairlead.system.sandbox import Sandbox, find_program, problem_of, sandbox_of
from keeper.running import LONG, SHORT, Reader, connected, eventually, is_known, keeper_of, keepers, output_of, spawn
from patience import PATIENCE

pytestmark = [pytest.mark.process, pytest.mark.linux]

ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
SIZES = pytest.mark.parametrize("size", [None, (80, 24)], ids=["pipes", "terminal"])


@pytest.fixture
def sandbox(data: Path) -> Sandbox:
    made = sandbox_of(find_program(), [data])
    assert problem_of(made) == ""
    return made


async def shell(keeper: Keeper, sandbox: Sandbox, script: str, **more: Any) -> KeptProcess:
    return await spawn(keeper, "/bin/sh", "-c", script, **{"env": ENV, "sandbox": sandbox} | more)


@SIZES
async def test_neither_socket_nor_keeper_is_visible(size: Any, sandbox: Sandbox, data: Path) -> None:
    keeper = await keeper_of(data)
    (pid,) = keepers(data)
    script = f"ls -A {data}; ls /proc; cat /proc/*/cmdline | tr '\\0' ' '; ls /proc/self/fd /proc/1/fd | tr '\\n' ' '"
    output = (await output_of(await shell(keeper, sandbox, script, size=size))).decode()
    assert str(pid) not in output.split()
    assert "keeper-1" not in output and "fairlead.keeper" not in output


@SIZES
async def test_output_input_and_exit_pass_through(size: Any, sandbox: Sandbox, data: Path) -> None:
    keeper = await keeper_of(data)
    process = await shell(keeper, sandbox, 'read x; echo "got $x in $PWD"; exit 3', size=size, cwd="/usr")
    await keeper.close()
    keeper = await connected(data)
    (found,) = keeper.found
    assert found.pid == process.pid
    await found.write(b"word\n")
    assert b"got word in /usr" in await output_of(found)
    assert await found.wait() == Exit(code=3)


@SIZES
async def test_signal_of_the_program_is_its_exit(size: Any, sandbox: Sandbox, data: Path) -> None:
    keeper = await keeper_of(data)
    process = await shell(keeper, sandbox, "kill -SEGV $$", size=size)
    assert await asyncio.wait_for(process.wait(), PATIENCE) == Exit(signal=signal.SIGSEGV)


async def test_program_that_closes_its_output_is_seen_to_do_so(sandbox: Sandbox, data: Path) -> None:
    keeper = await keeper_of(data)
    process = await shell(keeper, sandbox, "echo bye; exec >&-; read x")
    assert await output_of(process) == b"bye\n" and process.running
    assert (await process.end(LONG)).code == 1


@SIZES
async def test_limits_of_the_gateway_are_not_inherited(
    size: Any, sandbox: Sandbox, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(Descriptors, "started_with", (321, hard))
    keeper = await keeper_of(data)
    assert (await output_of(await shell(keeper, sandbox, "ulimit -Sn", size=size))).strip() == b"321"


@SIZES
async def test_failed_start_raises_what_it_raises_without_a_keeper(size: Any, sandbox: Sandbox, data: Path) -> None:
    keeper = await keeper_of(data)
    given = {"env": ENV, "sandbox": sandbox, "size": size}
    with pytest.raises(FileNotFoundError) as missing:
        await spawn(keeper, "/nowhere/program", **given)
    assert missing.value.filename == "/nowhere/program"
    with pytest.raises(FileNotFoundError) as folder:
        await spawn(keeper, "/bin/cat", cwd="/nowhere", **given)
    assert folder.value.filename == "/nowhere"
    with pytest.raises(BadRequest):
        await spawn(keeper, "/bin/cat", cwd=str(data), **given)


async def test_argument_that_looks_like_a_placeholder_is_left_alone(sandbox: Sandbox, data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/echo", "{pipes}", "{status}", env=ENV, sandbox=sandbox)
    assert await output_of(process) == b"{pipes} {status}\n"


@SIZES
async def test_stubborn_program_is_killed_with_everything_inside(size: Any, sandbox: Sandbox, data: Path) -> None:
    keeper = await keeper_of(data)
    script = "trap '' HUP TERM; setsid sleep 600 & echo ready; while :; do sleep 600; done"
    process = await shell(keeper, sandbox, script, size=size)
    await Reader(process).until(b"ready")
    assert await asyncio.wait_for(process.end(SHORT), PATIENCE) in (
        Exit(signal=signal.SIGKILL),
        Exit(signal=signal.SIGKILL, stderr=process.stderr),
    )
    assert not is_known(process.pid)


async def test_jobs_of_a_sandboxed_shell_end_with_it(sandbox: Sandbox, data: Path) -> None:
    keeper = await keeper_of(data)
    given = {"env": ENV, "sandbox": sandbox, "size": (80, 24)}
    process = await spawn(keeper, "/bin/bash", "--norc", "-i", **given)
    reader = Reader(process)
    await process.write(b"sleep 604 & sleep 605\n")
    await eventually(lambda: {b"604", b"605"} <= sleeping(data))
    await process.write(b"\x1a")
    await reader.until(b"Stopped")
    await process.end(StopTimeouts(close=0.2, terminate=0.2))
    await eventually(lambda: not {b"604", b"605"} & sleeping(data))


def sleeping(data: Path) -> set[bytes]:
    """The arguments of the `sleep` commands that run at the keeper."""
    found = set()
    for process in (each for keeper in keepers(data) for each in descendants(keeper)):
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"sleep":
            found.add(words[1])
    return found
