"""The gateway's own end and start: stopped in mid-turn, started twice, started on data that it cannot use."""

import json
import signal
import sqlite3
from pathlib import Path

import pytest

from faults.gateway_process import GatewayProcess
from faults.log_checks import check_log, ends
from faults.native_client import NativeClient

pytestmark = pytest.mark.fault


@pytest.mark.slow
async def test_a_gateway_stopped_mid_turn_ends_its_agents_and_reports_it(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path, allow="Bash", on_stop="end") as gateway:
        slow, quick = [NativeClient(await gateway.create()) for _ in range(2)]
        for client, script in ((slow, "slow 4000"), (quick, "long 300")):
            await client.come(gateway)
            await client.send(f"SCRIPT:{script}")
            await client.until("text.delta")
        waiting = await slow.send("SCRIPT:text")
        gateway.signal(signal.SIGTERM)
        assert await gateway.wait() == 0, gateway.log()
        for client in (slow, quick):
            await client.gone()
            assert client.close_code == 1012
        assert not list(gateway.offspring())
        assert not (gateway.data / "server.json").exists()
        await gateway.start()
        for client in (slow, quick):
            assert (await client.come(gateway))["verdict"] == "ok"
        # The quick one had time to finish while its input was closed; the slow one was ended.
        done = [ends(await gateway.stored(client.session)).popitem()[1] for client in (quick,)]
        assert [end["status"] for end in done] == ["completed"]
        await slow.holds(lambda: waiting["message"] in slow.over, "the turn that waited")
        stored = await gateway.stored(slow.session)
        check_log(stored, idle=True)
        first, second = ends(stored).values()
        assert (first["status"], first["reason"]) == ("failed", "gateway stopped")
        assert second["status"] == "completed"
        exited = next(line for line in stored if line["type"] == "agent.exited")
        assert (exited["reason"], exited["expected"]) == ("gateway stopped", True)
        for client in (slow, quick):
            await client.go()


async def test_a_second_gateway_on_one_folder_names_the_first(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as first:
        client = NativeClient(await first.create())
        await client.come(first)
        second = GatewayProcess(tmp_path / "second", data=first.data)
        second.spawn()
        assert await second.wait() == 2, second.log()
        assert f"the gateway with pid {first.pid}" in second.log()
        assert "--data" in second.log(), "says what to do"
        # The first one has not noticed.
        assert json.loads((first.data / "server.json").read_text())["pid"] == first.pid
        await client.send("SCRIPT:text")
        assert (await client.until("turn.ended"))["status"] == "completed"
        await client.go()


async def refuses(gateway: GatewayProcess) -> str:
    """Its last output; it exits with the code 2, without a traceback, and touches nothing."""
    before = (gateway.data / "fairlead.db").read_bytes()
    gateway.spawn()
    assert await gateway.wait() == 2, gateway.log()
    assert (gateway.data / "fairlead.db").read_bytes() == before
    assert "Traceback" not in gateway.log()
    return gateway.log()


async def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway:
        await gateway.create()
        gateway.signal(signal.SIGTERM)
        await gateway.wait()
        database = gateway.data / "fairlead.db"
        database.write_bytes(b"no database at all" + database.read_bytes()[18:])
        output = await refuses(gateway)
        assert str(database) in output
        assert "fairlead restore" in output


async def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway:
        await gateway.create()
        gateway.signal(signal.SIGTERM)
        await gateway.wait()
        db = sqlite3.connect(gateway.data / "fairlead.db")
        db.execute("pragma user_version = 999")
        db.close()
        output = await refuses(gateway)
        assert "999" in output
        assert "newer" in output
