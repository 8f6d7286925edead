"""A gateway with shells, claudecodeui's programs and a keeper, and nothing else, as a separate process that is killed.

python kept_server.py DATA ROOT

Prints its address and a token as JSON, and serves until it is killed.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from clients.claudecodeui.shell_harness import ShellGateway
from fairlead.keeper.client import Keeper, connect_or_start
from fairlead.system.clock import SystemClock
from fairlead.terminals.launcher.service import ProgramLauncher
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import ShellSettings, UserShells, shell_environment
from server.fakes import serving


async def main(data: Path, root: Path) -> None:
    clock = SystemClock()
    keeper = await connect_or_start(data, clock)

    async def get() -> Keeper:
        return keeper

    terminals = TerminalRegistry(clock, 8, keeper=get)
    terminals.restore(keeper.found, lambda user: True)
    env = shell_environment({"PATH": os.environ["PATH"], "HOME": str(root)}) | {"PS1": "$ "}
    shells = UserShells(terminals, clock, ShellSettings(program="/bin/sh", env=env), lambda path: path or str(root))
    core = ShellGateway(terminals, root)
    launcher = ProgramLauncher(terminals, shells, core, core.documents, clock, lambda path: path or str(root))
    await shells.begin()
    await launcher.start()
    await terminals.end_unadopted()
    async with serving(performers={**shells.handlers(), **launcher.handlers()}) as served:
        print(json.dumps({"address": served.ws, "token": served.admin}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
