"""A gateway that is killed with a plugin running: its client notices, and no server of a plugin is left over."""

import asyncio
import shutil
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from fairlead.system.proctable import start_mark
from faults.gateway_process import TOKEN, GatewayProcess
from patience import PATIENCE
from plugins.harness import BOARD, until, write_plugin


async def view(gateway: GatewayProcess, name: str, state: str) -> dict[str, object]:
    async with asyncio.timeout(PATIENCE), gateway.http() as http:
        while True:
            views = {one["name"]: one for one in (await http.get("/v1/plugins")).json()["plugins"]}
            if views[name]["state"] == state:
                return dict(views[name])
            await asyncio.sleep(0.05)


async def enable(gateway: GatewayProcess, name: str) -> dict[str, object]:
    shown = await view(gateway, name, "disabled")
    async with gateway.http() as http:
        assert (await http.post(f"/v1/plugins/{name}", json={"digest": shown["digest"]})).status_code == 200
    return await view(gateway, name, "running")


@pytest.mark.fault
async def test_no_server_of_a_plugin_outlives_a_killed_gateway_for_long(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, plugins=tmp_path / "plugins")
    shutil.copytree(BOARD, tmp_path / "plugins" / "board")
    # It ignores the end of its input and SIGTERM: only the next gateway can end it.
    write_plugin(tmp_path / "plugins", how="stubborn")
    async with gateway:
        kind, stubborn = await enable(gateway, "board"), await enable(gateway, "strange")
        url = f"{gateway.url.replace('http', 'ws', 1)}/plugin-ws/strange?token={TOKEN}"
        async with connect(url, proxy=None) as socket:
            await socket.send("hello")
            assert await asyncio.wait_for(socket.recv(), PATIENCE) == "hello"
            await gateway.kill()
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(socket.recv(), PATIENCE)
        await until(lambda: not start_mark(int(str(kind["pid"]))))
        assert start_mark(int(str(stubborn["pid"]))), "it would be left over"
        await gateway.start()
        assert start_mark(int(str(stubborn["pid"]))) == ""
        again = await view(gateway, "strange", "running")
        assert again["pid"] != stubborn["pid"]
        await view(gateway, "board", "running")
