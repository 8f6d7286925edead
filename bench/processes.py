"""The measured programs, each in a separate process: the gateway, and the two peers around the same agent.

Nothing is judged here: processes are started, sent requests, observed and ended.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2

from websocket_relay import node_command
from wires import TOKEN, Wire

HERE = Path(__file__).resolve().parent
PROGRAM = Path(sys.executable).with_name("fairlead")

# The same relay for Node: lines of the agent to every socket, unchanged.
NODE_RELAY = """
const { WebSocketServer } = require("ws");
const { spawn } = require("child_process");
const agent = spawn(process.argv[2], [], { stdio: ["pipe", "pipe", "inherit"] });
const sockets = new Set();
require("readline").createInterface({ input: agent.stdout }).on("line", (line) => {
  for (const socket of sockets) socket.send(line);
});
const server = new WebSocketServer({ port: 0, host: "127.0.0.1" }, () => console.log(server.address().port));
server.on("connection", (socket) => {
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
  socket.on("message", (data) => agent.stdin.write(data + "\\n"));
});
process.on("SIGTERM", () => { agent.kill(); process.exit(); });
"""


class Measured:
    """A process that is observed from outside."""

    name = ""
    process: "subprocess.Popen[Any]"

    def cpu(self) -> int:
        """Nanoseconds of CPU time so far, of all threads."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total

    def memory(self) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"{self.name} is gone")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def watch(self) -> Wire:
        """A new connection that receives everything from now on."""
        raise RuntimeError(f"{self.name} cannot be watched")

    def prompt(self, wire: Wire, text: str) -> None:
        """Send a prompt to the agent; its output reaches every wire."""
        raise RuntimeError(f"{self.name} takes no prompts")


class Gateway(Measured):
    """`fairlead serve` with the text-only agent; `program` may be a variant that does the same and more."""

    name = "gateway"

    def __init__(self, folder: Path, program: tuple[str, ...] = (str(PROGRAM),)) -> None:
        self.folder = folder
        self.program = program
        agent = agent_in(folder)
        self.settings: dict[str, Any] = {"data": folder / "data", "port": 0, "roots": folder, "log_level": "error"}
        self.settings |= {"agent": "claude", "claude": agent, "claude_home": folder}
        self.arguments: tuple[str, ...] = ()
        self.url = ""
        self.session = ""

    def start(self) -> float:
        """Seconds from the start of the process to the first answer of /health."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "FAIRLEAD_TOKEN": TOKEN, "LANG": "C.UTF-8"}
        env["FAIRLEAD_ON_STOP"] = "end"
        # One credential opens all sockets of a benchmark.
        env["FAIRLEAD_SOCKETS_PER_CREDENTIAL"] = "4096"
        env |= {f"FAIRLEAD_{name.upper()}": str(value) for name, value in self.settings.items()}
        place = self.folder / "data" / "server.json"
        begun = time.monotonic()
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen([*self.program, "serve", *self.arguments], env=env, stdout=quiet, stderr=quiet)
        while not place.exists():
            if self.process.poll() is not None:
                raise RuntimeError("the gateway did not start")
            time.sleep(0.002)
        self.url = json.loads(place.read_text())["url"]
        self.http = httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120, trust_env=False
        )
        self.http.get("/health").raise_for_status()
        return time.monotonic() - begun

    def stop(self) -> None:
        self.http.close()
        super().stop()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def create(self) -> str:
        answer = self.http.post("/v1/sessions", json={"cwd": str(self.folder)}).raise_for_status()
        self.session = str(answer.json()["session"])
        return self.session

    def head(self, session: str = "") -> int:
        return int(self.http.get(f"/v1/sessions/{session or self.session}").json()["head"])

    def connect(self) -> Wire:
        return Wire(self.port, "/v1/ws")

    def watch(self) -> Wire:
        wire = self.connect()
        wire.subscribe(self.session or self.create())
        return wire

    def prompt(self, wire: Wire, text: str) -> None:
        wire.send({"type": "send", "session": self.session, "text": text})


class Relay(Measured):
    """A peer: the agent's lines to every socket, nothing stored, no credentials."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def stop(self) -> None:
        super().stop()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def connect(self) -> Wire:
        return Wire(self.port, "/")

    def watch(self) -> Wire:
        return self.connect()

    def prompt(self, wire: Wire, text: str) -> None:
        wire.send({"type": "user", "message": {"role": "user", "content": text}})


def bare_relay(folder: Path) -> Relay:
    return Relay("bare websockets", [sys.executable, str(HERE / "bare_relay.py"), str(agent_in(folder))])


def node_relay(folder: Path) -> Relay:
    """Raises RuntimeError with the reason where Node's ws is not available."""
    node, script = node_command(folder)
    Path(script).write_text(NODE_RELAY)
    return Relay("node ws", [node, script, str(agent_in(folder))])


def agent_in(folder: Path) -> Path:
    """The text-only agent as a program in that folder."""
    program = folder / "agent"
    if not program.exists():
        program.write_text(f"#!{sys.executable}\n{(HERE / 'clocked_agent.py').read_text()}")
        program.chmod(0o755)
    return program


def python_start() -> float:
    """Seconds that Python itself takes to start and exit."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.monotonic() - begun
