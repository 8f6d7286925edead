"""Programs behind a gateway see neither its data folder, nor its settings, nor its processes: an agent, a shell and a
plugin look for them, in every way that they know.
"""

import os
import sys
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from clients.cognova.terminal_harness import ShellClient
from faults import strange_agent
from faults.gateway_process import TOKEN, GatewayProcess
from faults.native_client import NativeClient
from faults.test_fault_plugins import enable
from plugins.harness import write_manifest

pytestmark = [pytest.mark.fault, pytest.mark.linux]

CANARY = "a canary that sings"
LOOK = """
exec > {cwd}/$1.looking 2>&1
cat {data}/canary {data}/admin-token {link}/canary {settings} {named}
grep -r canary {data} {link} {home}/.config
cat /proc/{pid}/environ /proc/[0-9]*/environ /proc/[0-9]*/cwd/canary /proc/{pid}/cwd/canary | tr '\\0' '\\n'
kill -0 {pid} && echo the gateway can be signalled
umount {data}; cat {data}/canary
unshare -Urm umount {data}; unshare -Urm cat {data}/canary
for name in {data}/*; do echo "there is $name"; done
mv {cwd}/$1.looking {cwd}/$1.seen
"""
PLUGIN = """
import json, socket, subprocess, sys
subprocess.run(["sh", {look!r}, "plugin"])
open("own", "w").write("a plugin may write into its own folder")
listening = socket.create_server(("127.0.0.1", 0))
print(json.dumps({{"ready": True, "port": listening.getsockname()[1]}}), flush=True)
sys.stdin.read()
"""


class CanaryGateway:
    """A gateway with canaries in its folders, and a script that looks for them."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.gateway = GatewayProcess(folder, allow="Bash", shell="/bin/sh", **settings)
        self.data = self.gateway.data
        self.data.mkdir(mode=0o700, parents=True)
        (self.data / "canary").write_text(CANARY)
        self.named = folder / "named.toml"
        self.named.write_text(f"# {CANARY}\n")
        self.gateway.arguments = ("--config", str(self.named))
        usual = folder / ".config" / "fairlead"
        usual.mkdir(parents=True)
        (usual / "config.toml").write_text(f"# {CANARY}\n")
        self.link = folder / "link"
        self.link.symlink_to(self.data)
        self.look = self.gateway.cwd / "look.sh"

    def prepare(self) -> None:
        """Write the script while the gateway runs, because it needs its pid."""
        gateway = self.gateway
        self.look.write_text(
            LOOK.format(
                cwd=gateway.cwd,
                data=self.data,
                link=self.link,
                home=gateway.folder,
                named=self.named,
                settings=gateway.folder / ".config/fairlead/config.toml",
                pid=gateway.pid,
            )
        )

    def seen(self, name: str) -> str:
        return (self.gateway.cwd / f"{name}.seen").read_text(errors="replace")

    def sees_nothing(self, name: str, *, but: tuple[str, ...] = ()) -> None:
        seen = self.seen(name)
        assert CANARY not in seen and TOKEN not in seen, seen
        assert "can be signalled" not in seen
        there = {line.rpartition("/")[2] for line in seen.splitlines() if line.startswith("there is ")}
        assert there <= {"*", *but}, seen

    async def ask(self, prompt: str) -> None:
        client = NativeClient(await self.gateway.create())
        await client.come(self.gateway)
        sent = await client.send(prompt)
        await client.holds(lambda: sent["message"] in client.over, prompt)
        assert client.all("turn.ended")[-1]["status"] == "completed"
        await client.go()

    async def in_a_shell(self) -> None:
        url = f"{self.gateway.url.replace('http', 'ws', 1)}/terminal?token={TOKEN}"
        async with connect(url, proxy=None) as socket:
            shell = ShellClient(socket)
            await shell.type(f"sh {self.look} shell; echo looked-$((40+2))\r")
            await shell.until(lambda: "looked-42" in shell.text)


async def test_an_agent_its_tools_a_shell_and_a_plugin_see_nothing_of_the_gateway(tmp_path: Path) -> None:
    harness = CanaryGateway(tmp_path)
    plugin = harness.data / "plugins" / "looking"
    plugin.mkdir(parents=True)
    (plugin / "index.js").write_text("export function mount() {}\n")
    (plugin / "server.py").write_text(PLUGIN.format(look=str(harness.look)))
    write_manifest(plugin, name="looking")
    async with harness.gateway as gateway:
        harness.prepare()
        await harness.ask(f"SCRIPT:bash sh {harness.look} demo")
        harness.sees_nothing("demo", but=("demo-home", "uploads"))
        await harness.in_a_shell()
        harness.sees_nothing("shell")
        await enable(gateway, "looking")
        harness.sees_nothing("plugin", but=("plugins",))
        assert (plugin / "own").exists()
        assert (harness.data / "canary").read_text() == CANARY


def strange_program(folder: Path) -> Path:
    program = folder / "claude"
    program.write_text(f"#!{sys.executable}\n{Path(strange_agent.__file__).read_text()}")
    program.chmod(0o755)
    return program


async def test_the_program_that_drives_a_session_sees_nothing_either(tmp_path: Path) -> None:
    program = strange_program(tmp_path)
    harness = CanaryGateway(tmp_path, agent="claude", claude=program)
    async with harness.gateway:
        harness.prepare()
        os.utime(program, (0, 0))  # it is another file now, so its version is probed again
        await harness.ask("look")
        harness.sees_nothing("agent", but=("uploads",))
        assert CANARY not in harness.seen("version"), "not even when it is asked for its version"


async def test_without_a_sandbox_the_reachable_data_is_reported(tmp_path: Path) -> None:
    harness = CanaryGateway(tmp_path, sandbox="off")
    async with harness.gateway as gateway:
        harness.prepare()
        assert "none (it is off): agents, terminals and plugins can read the data folder" in gateway.log()
        await harness.in_a_shell()
        assert CANARY in harness.seen("shell") and TOKEN in harness.seen("shell")


def programs_without(folder: Path, name: str) -> str:
    """A folder with all the programs of PATH but one."""
    folder.mkdir()
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if program.name != name and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


async def test_without_bubblewrap_the_gateway_warns_or_does_not_start(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)
    gateway.env["PATH"] = programs_without(tmp_path / "programs", "bwrap")
    async with gateway:
        assert "none (bubblewrap (bwrap) is not installed): agents, terminals and plugins can read" in gateway.log()
    strict = GatewayProcess(tmp_path / "strict", sandbox="require")
    strict.env = gateway.env
    try:
        strict.spawn()
        assert await strict.wait() != 0
        assert "Setting sandbox: it is required, and bubblewrap (bwrap) is not installed." in strict.log()
    finally:
        await strict.clean_up()
