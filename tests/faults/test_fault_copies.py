"""A copy of a data folder, served in parallel with the original: it ends no process of the other gateway."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from fairlead.system.proctable import start_mark
from faults.gateway_process import PROGRAM, GatewayProcess
from faults.native_client import after_a_turn
from faults.test_fault_plugins import enable, view
from patience import PATIENCE
from plugins.harness import write_plugin

pytestmark = pytest.mark.fault


def remembered(data: Path) -> int:
    """How many processes a data folder lists as its gateway's agents."""
    with contextlib.closing(sqlite3.connect(data / "fairlead.db", timeout=PATIENCE)) as db:
        (number,) = db.execute("select count(*) from documents where space = 'children'").fetchone()
    return int(number)


def copied(gateway: GatewayProcess, to: Path) -> None:
    shutil.copytree(gateway.data, to, ignore=shutil.ignore_patterns("server.json", "*.sock"))


def restored(gateway: GatewayProcess, to: Path) -> None:
    backup = to.with_suffix(".backup")
    env = {"PATH": os.environ["PATH"], "HOME": str(gateway.folder), "LANG": "C.UTF-8"}
    for words in (["backup", str(backup), "--data", str(gateway.data)], ["restore", str(backup), "--data", str(to)]):
        subprocess.run([str(PROGRAM), *words], env=env, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("how", ["copied", "restored"])
async def test_a_copy_leaves_the_agents_of_the_original_alone(
    tmp_path: Path, how: Literal["copied", "restored"]
) -> None:
    async with GatewayProcess(tmp_path) as gateway:
        client, agent = await after_a_turn(gateway)
        mark = start_mark(agent)
        data = tmp_path / "other"
        await asyncio.to_thread(copied if how == "copied" else restored, gateway, data)
        assert remembered(data) == 1
        async with GatewayProcess(tmp_path / "another", data=data, on_restart="kill", roots=gateway.cwd):
            async with asyncio.timeout(PATIENCE):
                while await asyncio.to_thread(remembered, data):
                    await asyncio.sleep(0.01)
            assert start_mark(agent) == mark, "it is the other gateway's"
        sent = await client.send("SCRIPT:text")
        await client.holds(lambda: sent["message"] in client.over)
        assert gateway.agents(client.session) == [agent]
        await client.go()


async def test_a_copy_leaves_the_plugins_of_the_original_alone(tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugins")
    gateway = GatewayProcess(tmp_path, plugins=tmp_path / "plugins")
    async with gateway:
        running = await enable(gateway, "strange")
        data = tmp_path / "other"
        await asyncio.to_thread(copied, gateway, data)
        another = GatewayProcess(tmp_path / "another", data=data, plugins=tmp_path / "plugins", roots=gateway.cwd)
        async with another:
            other = await view(another, "strange", "running")
            assert other["pid"] != running["pid"]
            assert (await view(gateway, "strange", "running"))["pid"] == running["pid"]
            assert start_mark(int(str(running["pid"])))
