"""Running plugins: only as an admin enabled them; monitored, restarted, stopped, and found again after a crash."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from auth.fakes import MemoryDocuments
from fairlead.model.errors import BadRequest, NotAllowed, NotFound, Stale
from fairlead.plugins.api import DisablePlugin, EnablePlugin, ListPlugins
from fairlead.plugins.manager import CHILDREN, HEALTH_SECONDS
from fairlead.plugins.process import FIRST_WAIT, LONGEST_WAIT, READY_SECONDS, STEADY_SECONDS, ReadyLine
from fairlead.system.proctable import start_mark
from fairlead_testing.clock import ManualClock
from plugins.harness import ADMIN, BOARD, GUEST, open_plugins, until, write_manifest, write_plugin

pytestmark = pytest.mark.process


async def test_a_plugin_runs_only_after_it_was_enabled(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    async with open_plugins(tmp_path) as harness:
        shown = await harness.view()
        assert (shown.state, shown.enabled, shown.port, shown.pid, shown.healthy) == ("disabled", False, 0, 0, None)
        assert (shown.display_name, shown.entry, shown.server) == ("Strange", "index.js", (sys.executable, "server.py"))
        running = await harness.runs()
        assert running.enabled and running.port > 0 and start_mark(running.pid) and running.healthy is True
    assert start_mark(running.pid) == "", "it ends with the gateway"
    assert await harness.documents.list(CHILDREN) == {}


async def test_an_enabled_plugin_starts_with_the_gateway(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    documents = MemoryDocuments()
    async with open_plugins(tmp_path, documents=documents) as first:
        before = await first.runs()
    async with open_plugins(tmp_path, documents=documents) as second:
        after = await second.comes_to("running")
        assert after.pid != before.pid
        gone = await second.plugins.disable(ADMIN, DisablePlugin("strange"))
        assert (gone.state, gone.enabled, start_mark(after.pid)) == ("disabled", False, "")
    async with open_plugins(tmp_path, documents=documents) as third:
        assert (await third.view()).state == "disabled"


async def test_only_the_version_that_was_shown_can_be_enabled(tmp_path: Path) -> None:
    made = write_plugin(tmp_path)
    broken = write_plugin(tmp_path, "broken")
    (broken / "manifest.json").write_text("{")
    async with open_plugins(tmp_path) as harness:
        digest = (await harness.view()).digest
        with pytest.raises(NotAllowed):
            await harness.plugins.enable(GUEST, EnablePlugin("strange", digest))
        with pytest.raises(NotAllowed):
            await harness.plugins.disable(GUEST, DisablePlugin("strange"))
        with pytest.raises(NotFound):
            await harness.plugins.enable(ADMIN, EnablePlugin("other", digest))
        with pytest.raises(NotFound):
            await harness.plugins.disable(ADMIN, DisablePlugin("other"))
        with pytest.raises(BadRequest, match="not JSON"):
            await harness.plugins.enable(ADMIN, EnablePlugin("broken", ""))
        write_manifest(made, name="strange", server=["sh", "-c", "true"])
        with pytest.raises(Stale, match="fairlead plugins enable strange"):
            await harness.plugins.enable(ADMIN, EnablePlugin("strange", digest))
        states = {name: view.state for name, view in (await harness.views()).items()}
        assert states == {"strange": "disabled", "broken": "broken"}


async def test_a_changed_plugin_is_not_restarted_until_it_is_enabled_again(tmp_path: Path) -> None:
    made = write_plugin(tmp_path)
    documents = MemoryDocuments()
    async with open_plugins(tmp_path, documents=documents) as harness:
        running = await harness.runs()
        (made / "server.py").write_text((made / "server.py").read_text() + "\n# another\n")
        current = await harness.view()
        assert (current.state, current.pid) == ("running", running.pid) and "changed" in current.problem
        os.kill(running.pid, signal.SIGKILL)
        changed = await harness.comes_to("changed")
        assert changed.enabled and "fairlead plugins enable strange" in changed.problem
    async with open_plugins(tmp_path, documents=documents) as again:
        await again.comes_to("changed")
        assert (await again.runs()).state == "running"


async def test_a_plugin_without_its_folder_can_still_be_disabled(tmp_path: Path) -> None:
    made = write_plugin(tmp_path)
    async with open_plugins(tmp_path) as harness:
        running = await harness.runs()
        made.rename(tmp_path / ".away")
        assert (await harness.view()).problem == "Its folder is gone."
        await harness.plugins.disable(ADMIN, DisablePlugin("strange"))
        assert start_mark(running.pid) == "" and await harness.views() == {}


async def test_a_plugin_may_have_only_a_page(tmp_path: Path) -> None:
    write_plugin(tmp_path, server="")
    async with open_plugins(tmp_path) as harness:
        await harness.enable()
        view = await harness.view()
        assert (view.state, view.server, view.pid) == ("page", (), 0)
        assert (await harness.plugins.page("strange"))[1] == ("manifest.json",)


async def test_a_failing_plugin_is_restarted_with_growing_delays_until_it_is_stable(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, how="fails")
    clock = ManualClock()
    async with open_plugins(tmp_path, clock) as harness:
        await harness.enable()
        wait, restarts = FIRST_WAIT, 0
        while wait < LONGEST_WAIT:
            view = await harness.comes_to("waiting")
            assert view.restarts == restarts and "code 7" in view.problem and "it cannot be" in view.problem
            await clock.advance(wait - 0.01)
            assert (await harness.view()).state == "waiting", "not before its time"
            await clock.advance(0.01)
            wait, restarts = min(2 * wait, LONGEST_WAIT), restarts + 1
        await harness.comes_to("waiting")
        (made / "how.txt").unlink()
        await clock.advance(LONGEST_WAIT)
        running = await harness.comes_to("running")
        assert running.problem == ""
        await clock.advance(STEADY_SECONDS)
        os.kill(running.pid, signal.SIGKILL)
        assert "signal 9" in (await harness.comes_to("waiting")).problem
        await clock.advance(FIRST_WAIT)
        await harness.comes_to("running")


async def test_a_plugin_that_does_not_report_ready_is_stopped(tmp_path: Path) -> None:
    write_plugin(tmp_path, how="silent")
    clock = ManualClock()
    async with open_plugins(tmp_path, clock) as harness:
        await harness.enable()
        await until(lambda: clock.waiting)
        starting = await harness.view()
        assert starting.state == "starting"
        await clock.advance(READY_SECONDS)
        # It does not watch its input either: the next step of the stop sequence ends it.
        await until(lambda: clock.waiting)
        await clock.advance(2.0)
        view = await harness.comes_to("waiting")
        assert "10 seconds" in view.problem and start_mark(starting.pid) == ""


async def test_a_plugin_that_cannot_be_started_gives_the_reason(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, server=["there-is-no-such-program"])
    (made / "run").write_text("")
    async with open_plugins(tmp_path) as harness:
        await harness.enable()
        assert "there-is-no-such-program cannot be started" in (await harness.comes_to("waiting")).problem


async def test_a_plugin_that_ignores_signals_is_killed_at_shutdown_with_its_children(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, how="stubborn")
    server = (made / "server.py").read_text()
    below = 'import subprocess\nPath("below").write_text(str(subprocess.Popen(["sleep", "1000"]).pid))\n'
    (made / "server.py").write_text(
        server.replace('if __name__ == "__main__":', f'{below}\nif __name__ == "__main__":')
    )
    async with open_plugins(tmp_path) as harness:
        running = await harness.runs()
        sleeper = int((made / "below").read_text())
        assert start_mark(sleeper)
    assert start_mark(running.pid) == start_mark(sleeper) == ""


@pytest.mark.fault
async def test_only_the_processes_of_a_killed_gateway_are_stopped_by_the_next(tmp_path: Path) -> None:
    write_plugin(tmp_path, how="stubborn")
    documents = MemoryDocuments()
    left = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    other = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    gone = {"pid": left.pid, "started": start_mark(left.pid), "group": left.pid}
    stranger = {"pid": other.pid, "started": "another boot/1", "group": other.pid}
    await documents.put(CHILDREN, "strange", gone)
    await documents.put(CHILDREN, "other", stranger)
    try:
        async with open_plugins(tmp_path, documents=documents) as harness:
            assert await left.wait() == -signal.SIGTERM
            assert start_mark(other.pid), "its number was used again: it is not ours"
            assert await documents.list(CHILDREN) == {}
            assert (await harness.view()).state == "disabled"
    finally:
        other.kill()
        await other.wait()


async def test_it_runs_in_its_own_folder_with_a_minimal_environment(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, server=["sh", "-c", "env > env.txt; pwd > pwd.txt; exit 1"])
    async with open_plugins(tmp_path) as harness:
        await harness.enable()
        await harness.comes_to("waiting")
    names = {line.partition("=")[0] for line in (made / "env.txt").read_text().splitlines()} - {"PWD", "OLDPWD", "_"}
    assert names - {"SHLVL"} == {"PATH", "HOME", "PLUGIN_NAME"}
    assert (made / "pwd.txt").read_text().strip() == str(made)


async def test_a_server_that_hangs_is_unhealthy(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    clock = ManualClock()
    async with open_plugins(tmp_path, clock) as harness:
        running = await harness.runs()
        os.kill(running.pid, signal.SIGSTOP)
        try:
            looking = asyncio.create_task(harness.view())
            await until(lambda: clock.waiting)
            await clock.advance(HEALTH_SECONDS)
            assert (await looking).healthy is False
        finally:
            os.kill(running.pid, signal.SIGCONT)
        assert (await harness.view()).healthy is True


async def test_health_is_whether_the_port_answers(tmp_path: Path) -> None:
    line = json.dumps({"ready": True, "port": 1})
    write_plugin(tmp_path, server=["sh", "-c", f"echo '{line}'; cat"])
    async with open_plugins(tmp_path) as harness:
        await harness.enable()
        view = await harness.comes_to("running")
        assert (view.port, view.healthy) == (1, False)


async def test_the_sample_runs(tmp_path: Path) -> None:
    (tmp_path / "board").symlink_to(BOARD)
    async with open_plugins(tmp_path) as harness:
        assert (await harness.runs("board")).healthy


async def test_enabling_again_restarts_it(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    async with open_plugins(tmp_path) as harness:
        first = await harness.runs()
        second = await harness.runs()
        assert first.pid != second.pid and start_mark(first.pid) == ""


async def test_nothing_is_started_once_the_gateway_stops(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    async with open_plugins(tmp_path) as harness:
        digest = (await harness.view()).digest
    await harness.plugins.enable(ADMIN, EnablePlugin("strange", digest))
    assert [view.pid for view in await harness.plugins.list(ADMIN, ListPlugins())] == [0]


@pytest.mark.parametrize("pieces", [[b'{"ready":true,"port":4711}\n'], [b'{"ready":tr', b'ue,"port":4711}', b"\n"]])
async def test_a_port_is_read_however_the_line_is_split(pieces: list[bytes]) -> None:
    ready = ReadyLine()
    for noise in (b"\n", b"warming up\n", b'{"ready":false,"port":1}\n', b'{"ready":true,"port":0}\n', b'"ready"\n'):
        await ready.take(noise)
    assert not ready.port.done()
    for piece in pieces:
        await ready.take(piece)
    assert ready.port.result() == 4711
    await ready.take(b'{"ready":true,"port":4712}\n')
    assert ready.port.result() == 4711


async def test_a_line_without_an_end_is_bounded() -> None:
    ready = ReadyLine()
    for _ in range(64):
        await ready.take(b"x" * (1 << 16))
    assert len(ready._line) <= 1 << 16
    await ready.take(b'\n{"ready":true,"port":5}\n')
    assert ready.port.result() == 5
