"""Folders of plugins, and a plugin manager for one, for tests: real servers in real processes."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from auth.fakes import MemoryDocuments
from fairlead.model.auth import Identity
from fairlead.plugins.api import EnablePlugin, ListPlugins, PluginView
from fairlead.plugins.manager import PluginManager, PluginSettings, plugin_environment
from fairlead.system.clock import Clock, SystemClock
from patience import PATIENCE

ADMIN = Identity("c1", "owner", "ann", frozenset({"admin"}))
GUEST = Identity("c2", "guest", "bob", frozenset({"view", "terminal"}))
STRANGE = Path(__file__).with_name("strange_server.py")
BOARD = Path(__file__).parents[2] / "examples" / "plugins" / "board"
PROGRAMS = {".py": sys.executable}
SECRETS = {"FAIRLEAD_TOKEN": "fl_secret", "ANTHROPIC_API_KEY": "sk-secret", "LD_PRELOAD": ""}


def write_plugin(folder: Path, name: str = "strange", how: str = "", **fields: Any) -> Path:
    """Write a plugin whose server follows the instructions in `how` and in messages."""
    made = folder / name
    made.mkdir(parents=True)
    shutil.copy(STRANGE, made / "server.py")
    (made / "index.js").write_text("export function mount() {}\n")
    if how:
        (made / "how.txt").write_text(how)
    write_manifest(made, name=name, **fields)
    return made


def write_manifest(folder: Path, **fields: Any) -> None:
    manifest = {"displayName": "Strange", "entry": "index.js", "server": "server.py", **fields}
    (folder / "manifest.json").write_text(json.dumps({key: value for key, value in manifest.items() if value != ""}))


async def until(holds: Callable[[], Any]) -> None:
    """Wait for the condition itself; bounded, so that a failing test ends."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.01)


class PluginHarness:
    def __init__(self, plugins: PluginManager, documents: MemoryDocuments, folder: Path) -> None:
        self.plugins = plugins
        self.documents = documents
        self.folder = folder

    async def views(self) -> dict[str, PluginView]:
        return {view.name: view for view in await self.plugins.list(ADMIN, ListPlugins())}

    async def view(self, name: str = "strange") -> PluginView:
        return (await self.views())[name]

    async def enable(self, name: str = "strange") -> None:
        await self.plugins.enable(ADMIN, EnablePlugin(name, (await self.view(name)).digest))

    async def comes_to(self, state: str, name: str = "strange") -> PluginView:
        async with asyncio.timeout(PATIENCE):
            while (view := await self.view(name)).state != state:
                await asyncio.sleep(0.01)
        return view

    async def runs(self, name: str = "strange") -> PluginView:
        """Enable it and wait for its server."""
        await self.enable(name)
        return await self.comes_to("running", name)


@contextlib.asynccontextmanager
async def open_plugins(
    folder: Path, clock: Clock | None = None, documents: MemoryDocuments | None = None, message_bytes: int = 8 << 20
) -> AsyncIterator[PluginHarness]:
    kept = documents or MemoryDocuments()
    host = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder)}
    settings = PluginSettings(
        folder=folder, env=plugin_environment(host | SECRETS), programs=PROGRAMS, message_bytes=message_bytes
    )
    plugins = PluginManager(kept, clock or SystemClock(), settings)
    await plugins.start()
    try:
        yield PluginHarness(plugins, kept, folder)
    finally:
        await plugins.stop()


def ends(plugin: Path) -> list[list[Any]]:
    """Close codes and reasons of its sockets, as recorded by the strange server."""
    try:
        return [json.loads(line) for line in (plugin / "ends.jsonl").read_text().splitlines()]
    except FileNotFoundError:
        return []
