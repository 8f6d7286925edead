"""The script of docs/how-to/agui.md, run as it is printed there, except for the gateway's address."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clients.agui.harness import open_gateway
from e2e.agui.judges import why_not_here
from e2e.harness import program_folders
from patience import PATIENCE
from tools.agui_sdks import CLIENT

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "agui.md"


async def test_the_script_of_the_how_to_page_asks_for_a_permission_and_goes_on(tmp_path: Path) -> None:
    if reason := why_not_here():
        pytest.skip(reason)
    (script,) = re.findall(r"```js\n(.*?)```", PAGE.read_text(), re.DOTALL)
    async with open_gateway(tmp_path) as gateway:
        (tmp_path / "chat.mjs").write_text(re.sub(r"http://127\.0\.0\.1:\d+", gateway.gateway.url, script))
        (tmp_path / "node_modules").symlink_to(CLIENT.folder / "node_modules")
        env = {"PATH": ":".join(program_folders()), "HOME": str(tmp_path), "FAIRLEAD_TOKEN": gateway.gateway.token}
        node = await asyncio.create_subprocess_exec(
            shutil.which("node") or "node",
            "chat.mjs",
            cwd=tmp_path,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert node.stdin is not None and node.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                await node.stdout.readuntil(b"> ")
                node.stdin.write(b"SCRIPT:write notes.txt\n")
                await node.stdout.readuntil(b'Allow "notes.txt"? (y/n) ')
                node.stdin.write(b"y\n")
                await node.stdout.readuntil(b"Done. The tool said: File created successfully")
        finally:
            node.kill()
            await node.wait()
    assert (tmp_path / "notes.txt").exists()
