"""Plugins that run: only what a person enabled, as it was then; watched, started again, ended, and found again."""

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
from fairlead.testing.clock import ManualClock
from plugins.harness import ADMIN, BOARD, GUEST, desk_of, until, write_manifest, write_plugin

pytestmark = pytest.mark.process


async def test_a_plugin_runs_when_somebody_has_enabled_it_and_no_sooner(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    async with desk_of(tmp_path) as desk:
        shown = await desk.view()
        assert (shown.state, shown.enabled, shown.port, shown.pid, shown.healthy) == ("disabled", False, 0, 0, None)
        assert (shown.display_name, shown.entry, shown.server) == ("Strange", "index.js", (sys.executable, "server.py"))
        running = await desk.runs()
        assert running.enabled and running.port > 0 and start_mark(running.pid) and running.healthy is True
    assert start_mark(running.pid) == "", "it ends with the gateway"
    assert await desk.documents.list(CHILDREN) == {}


async def test_one_that_was_enabled_starts_with_the_gateway(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    documents = MemoryDocuments()
    async with desk_of(tmp_path, documents=documents) as first:
        before = await first.runs()
    async with desk_of(tmp_path, documents=documents) as second:
        after = await second.comes_to("running")
        assert after.pid != before.pid
        gone = await second.plugins.disable(ADMIN, DisablePlugin("strange"))
        assert (gone.state, gone.enabled, start_mark(after.pid)) == ("disabled", False, "")
    async with desk_of(tmp_path, documents=documents) as third:
        assert (await third.view()).state == "disabled"


async def test_what_was_shown_is_what_is_enabled(tmp_path: Path) -> None:
    made = write_plugin(tmp_path)
    broken = write_plugin(tmp_path, "broken")
    (broken / "manifest.json").write_text("{")
    async with desk_of(tmp_path) as desk:
        digest = (await desk.view()).digest
        with pytest.raises(NotAllowed):
            await desk.plugins.enable(GUEST, EnablePlugin("strange", digest))
        with pytest.raises(NotAllowed):
            await desk.plugins.disable(GUEST, DisablePlugin("strange"))
        with pytest.raises(NotFound):
            await desk.plugins.enable(ADMIN, EnablePlugin("other", digest))
        with pytest.raises(NotFound):
            await desk.plugins.disable(ADMIN, DisablePlugin("other"))
        with pytest.raises(BadRequest, match="not JSON"):
            await desk.plugins.enable(ADMIN, EnablePlugin("broken", ""))
        write_manifest(made, name="strange", server=["sh", "-c", "true"])
        with pytest.raises(Stale, match="fairlead plugins enable strange"):
            await desk.plugins.enable(ADMIN, EnablePlugin("strange", digest))
        states = {name: view.state for name, view in (await desk.views()).items()}
        assert states == {"strange": "disabled", "broken": "broken"}


async def test_a_changed_plugin_is_not_started_again_until_somebody_looked(tmp_path: Path) -> None:
    made = write_plugin(tmp_path)
    documents = MemoryDocuments()
    async with desk_of(tmp_path, documents=documents) as desk:
        running = await desk.runs()
        (made / "server.py").write_text((made / "server.py").read_text() + "\n# another\n")
        told = await desk.view()
        assert (told.state, told.pid) == ("running", running.pid) and "changed" in told.problem
        os.kill(running.pid, signal.SIGKILL)
        changed = await desk.comes_to("changed")
        assert changed.enabled and "fairlead plugins enable strange" in changed.problem
    async with desk_of(tmp_path, documents=documents) as again:
        await again.comes_to("changed")
        assert (await again.runs()).state == "running"


async def test_one_whose_folder_is_gone_can_still_be_disabled(tmp_path: Path) -> None:
    made = write_plugin(tmp_path)
    async with desk_of(tmp_path) as desk:
        running = await desk.runs()
        made.rename(tmp_path / ".away")
        assert (await desk.view()).problem == "Its folder is gone."
        await desk.plugins.disable(ADMIN, DisablePlugin("strange"))
        assert start_mark(running.pid) == "" and await desk.views() == {}


async def test_a_plugin_may_have_a_page_alone(tmp_path: Path) -> None:
    write_plugin(tmp_path, server="")
    async with desk_of(tmp_path) as desk:
        await desk.enable()
        view = await desk.view()
        assert (view.state, view.server, view.pid) == ("page", (), 0)
        assert (await desk.plugins.page("strange")).kept_back == ("manifest.json",)


async def test_one_that_ends_is_started_again_later_each_time_until_it_is_steady(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, how="fails")
    clock = ManualClock()
    async with desk_of(tmp_path, clock) as desk:
        await desk.enable()
        wait, restarts = FIRST_WAIT, 0
        while wait < LONGEST_WAIT:
            view = await desk.comes_to("waiting")
            assert view.restarts == restarts and "code 7" in view.problem and "it cannot be" in view.problem
            await clock.advance(wait - 0.01)
            assert (await desk.view()).state == "waiting", "not before its time"
            await clock.advance(0.01)
            wait, restarts = min(2 * wait, LONGEST_WAIT), restarts + 1
        await desk.comes_to("waiting")
        (made / "how.txt").unlink()
        await clock.advance(LONGEST_WAIT)
        running = await desk.comes_to("running")
        assert running.problem == ""
        await clock.advance(STEADY_SECONDS)
        os.kill(running.pid, signal.SIGKILL)
        assert "signal 9" in (await desk.comes_to("waiting")).problem
        await clock.advance(FIRST_WAIT)
        await desk.comes_to("running")


async def test_one_that_does_not_say_that_it_is_ready_is_ended(tmp_path: Path) -> None:
    write_plugin(tmp_path, how="silent")
    clock = ManualClock()
    async with desk_of(tmp_path, clock) as desk:
        await desk.enable()
        await until(lambda: clock.waiting)
        starting = await desk.view()
        assert starting.state == "starting"
        await clock.advance(READY_SECONDS)
        # It does not watch its input either: the ladder's next step ends it.
        await until(lambda: clock.waiting)
        await clock.advance(2.0)
        view = await desk.comes_to("waiting")
        assert "10 seconds" in view.problem and start_mark(starting.pid) == ""


async def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, server=["there-is-no-such-program"])
    (made / "run").write_text("")
    async with desk_of(tmp_path) as desk:
        await desk.enable()
        assert "there-is-no-such-program cannot be started" in (await desk.comes_to("waiting")).problem


async def test_one_that_ignores_every_word_is_killed_at_the_stop_with_all_that_it_started(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, how="stubborn")
    server = (made / "server.py").read_text()
    below = 'import subprocess\nPath("below").write_text(str(subprocess.Popen(["sleep", "1000"]).pid))\n'
    (made / "server.py").write_text(
        server.replace('if __name__ == "__main__":', f'{below}\nif __name__ == "__main__":')
    )
    async with desk_of(tmp_path) as desk:
        running = await desk.runs()
        sleeper = int((made / "below").read_text())
        assert start_mark(sleeper)
    assert start_mark(running.pid) == start_mark(sleeper) == ""


@pytest.mark.fault
async def test_what_a_killed_gateway_left_is_ended_by_the_next_and_nobody_else_is(tmp_path: Path) -> None:
    write_plugin(tmp_path, how="stubborn")
    documents = MemoryDocuments()
    left = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    other = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    gone = {"pid": left.pid, "started": start_mark(left.pid), "group": left.pid}
    stranger = {"pid": other.pid, "started": "another boot/1", "group": other.pid}
    await documents.put(CHILDREN, "strange", gone)
    await documents.put(CHILDREN, "other", stranger)
    try:
        async with desk_of(tmp_path, documents=documents) as desk:
            assert await left.wait() == -signal.SIGTERM
            assert start_mark(other.pid), "its number was used again: it is not ours"
            assert await documents.list(CHILDREN) == {}
            assert (await desk.view()).state == "disabled"
    finally:
        other.kill()
        await other.wait()


async def test_its_environment_is_made_from_nothing_and_its_folder_is_its_own(tmp_path: Path) -> None:
    made = write_plugin(tmp_path, server=["sh", "-c", "env > env.txt; pwd > pwd.txt; exit 1"])
    async with desk_of(tmp_path) as desk:
        await desk.enable()
        await desk.comes_to("waiting")
    names = {line.partition("=")[0] for line in (made / "env.txt").read_text().splitlines()} - {"PWD", "OLDPWD", "_"}
    assert names - {"SHLVL"} == {"PATH", "HOME", "PLUGIN_NAME"}
    assert (made / "pwd.txt").read_text().strip() == str(made)


async def test_a_server_that_hangs_is_not_well(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    clock = ManualClock()
    async with desk_of(tmp_path, clock) as desk:
        running = await desk.runs()
        os.kill(running.pid, signal.SIGSTOP)
        try:
            looking = asyncio.create_task(desk.view())
            await until(lambda: clock.waiting)
            await clock.advance(HEALTH_SECONDS)
            assert (await looking).healthy is False
        finally:
            os.kill(running.pid, signal.SIGCONT)
        assert (await desk.view()).healthy is True


async def test_health_is_whether_somebody_answers(tmp_path: Path) -> None:
    line = json.dumps({"ready": True, "port": 1})
    write_plugin(tmp_path, server=["sh", "-c", f"echo '{line}'; cat"])
    async with desk_of(tmp_path) as desk:
        await desk.enable()
        view = await desk.comes_to("running")
        assert (view.port, view.healthy) == (1, False)


async def test_the_sample_runs(tmp_path: Path) -> None:
    (tmp_path / "board").symlink_to(BOARD)
    async with desk_of(tmp_path) as desk:
        assert (await desk.runs("board")).healthy


async def test_enabling_again_starts_it_anew(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    async with desk_of(tmp_path) as desk:
        first = await desk.runs()
        second = await desk.runs()
        assert first.pid != second.pid and start_mark(first.pid) == ""


async def test_nothing_is_started_once_the_gateway_stops(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    async with desk_of(tmp_path) as desk:
        digest = (await desk.view()).digest
    await desk.plugins.enable(ADMIN, EnablePlugin("strange", digest))
    assert [view.pid for view in await desk.plugins.list(ADMIN, ListPlugins())] == [0]


@pytest.mark.parametrize("pieces", [[b'{"ready":true,"port":4711}\n'], [b'{"ready":tr', b'ue,"port":4711}', b"\n"]])
async def test_a_port_is_heard_however_the_line_comes(pieces: list[bytes]) -> None:
    told = ReadyLine()
    for noise in (b"\n", b"warming up\n", b'{"ready":false,"port":1}\n', b'{"ready":true,"port":0}\n', b'"ready"\n'):
        await told.take(noise)
    assert not told.port.done()
    for piece in pieces:
        await told.take(piece)
    assert told.port.result() == 4711
    await told.take(b'{"ready":true,"port":4712}\n')
    assert told.port.result() == 4711


async def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    told = ReadyLine()
    for _ in range(64):
        await told.take(b"x" * (1 << 16))
    assert len(told._line) <= 1 << 16
    await told.take(b'\n{"ready":true,"port":5}\n')
    assert told.port.result() == 5
