"""Two servers that speak claudecodeui's protocol: the gateway on its door, and claudecodeui itself.

Rule: both receive the same requests; the differences are how each is started and how a user signs in.
Both run as a person would run them, in separate homes, with an environment built from nothing. Nothing is judged here.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from processes import PROGRAM, Measured
from wires import TOKEN, Wire

USER, PASSWORD = "bench", "correct horse battery"

Frame = dict[str, Any]


class Side(Measured):
    """A server on its port, and a signed-in user."""

    def __init__(self, folder: Path, cli: Path, model: str) -> None:
        self.folder = folder
        self.cli = cli
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        self.model = model
        self.port = _free_port()
        self.token = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "TERM": "xterm-256color",
            "ANTHROPIC_BASE_URL": self.model,
            "ANTHROPIC_API_KEY": "made-up-key-of-the-bench",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        }

    def start(self) -> None:
        with (self.folder / "server.log").open("wb") as log:
            self.process = subprocess.Popen(self.command(), env=self.env(), cwd=self.project, stdout=log, stderr=log)
        self.http = httpx2.Client(base_url=self.url, timeout=300, trust_env=False)
        deadline = time.monotonic() + 120
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start: {(self.folder / 'server.log').read_text()[-500:]}")
            time.sleep(0.02)
        self.token = self.sign_in()
        self.http.headers["Authorization"] = f"Bearer {self.token}"
        # From here on it knows which sessions exist.
        self.http.get("/api/projects").raise_for_status()

    def _answers(self) -> bool:
        try:
            return self.http.get("/health").is_success
        except httpx2.TransportError:
            return False

    def stop(self) -> None:
        self.http.close()
        super().stop()

    def command(self) -> list[str]:
        raise RuntimeError(f"how is {self.name} started?")

    def sign_in(self) -> str:
        raise RuntimeError(f"who may sign in to {self.name}?")

    # --- client actions

    def wire(self, path: str = "/ws") -> Wire:
        return Wire(self.port, f"{path}?token={self.token}", self.token)

    def session(self) -> str:
        asked = {"provider": "claude", "projectPath": str(self.project), "initialMessage": "bench"}
        answer = self.http.post("/api/providers/sessions", json=asked).raise_for_status()
        return str(answer.json()["data"]["sessionId"])

    def send(self, wire: Wire, session: str, text: str) -> None:
        options = {"model": "default", "permissionMode": "default", "toolsSettings": {}}
        wire.send({"type": "chat.send", "sessionId": session, "content": text, "options": options})

    def shell(self, command: str) -> Wire:
        """A new terminal that runs that command."""
        wire = self.wire("/shell")
        begin: Frame = {"type": "init", "projectPath": str(self.project), "sessionId": None, "hasSession": False}
        begin |= {"provider": "plain-shell", "cols": 120, "rows": 40, "initialCommand": command, "isPlainShell": True}
        wire.send(begin)
        return wire


class Ours(Side):
    name = "fairlead"

    def command(self) -> list[str]:
        return [str(PROGRAM), "serve", "--door", f"claudecodeui={self.port}"]

    def env(self) -> dict[str, str]:
        settings = {
            "data": self.folder / "data",
            "port": 0,
            "roots": self.project,
            "log_level": "error",
            "on_stop": "end",
        }
        settings |= {"agent": "claude", "claude": self.cli, "claude_home": self.folder, "pass_env": "IS_SANDBOX"}
        named = {f"FAIRLEAD_{name.upper()}": str(value) for name, value in settings.items()}
        return super().env() | named | {"FAIRLEAD_TOKEN": TOKEN}

    def sign_in(self) -> str:
        main = json.loads((self.folder / "data" / "server.json").read_text())["url"]
        user = {"name": USER, "password": PASSWORD, "scopes": ["view", "chat", "approve", "terminal"]}
        with httpx2.Client(base_url=main, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False) as admin:
            admin.post("/v1/users", json=user).raise_for_status()
            admin.put("/v1/users/owner/password", json={"password": PASSWORD}).raise_for_status()
        self._terminal_token = self._login(USER)
        return self._login("owner")

    def _login(self, user: str) -> str:
        answer = self.http.post("/api/auth/login", json={"username": user, "password": PASSWORD})
        return str(answer.raise_for_status().json()["token"])

    def wire(self, path: str = "/ws") -> Wire:
        # The transcripts belong to the owner, whose password does not open terminals.
        token = self._terminal_token if path == "/shell" else self.token
        return Wire(self.port, f"{path}?token={token}", token)


class Theirs(Side):
    name = "claudecodeui"

    def __init__(self, folder: Path, cli: Path, model: str, program: Path) -> None:
        super().__init__(folder, cli, model)
        self.program = program

    def command(self) -> list[str]:
        node = shutil.which("node")
        if node is None:
            raise RuntimeError("there is no node")
        return [node, str(self.program)]

    def env(self) -> dict[str, str]:
        own = {"SERVER_PORT": str(self.port), "HOST": "127.0.0.1", "CLAUDE_CLI_PATH": str(self.cli)}
        return super().env() | own | {"NODE_ENV": "production"}

    def sign_in(self) -> str:
        answer = self.http.post("/api/auth/register", json={"username": USER, "password": PASSWORD})
        return str(answer.raise_for_status().json()["token"])


def frames(wire: Wire) -> Iterator[tuple[int, Frame]]:
    """(nanoseconds of arrival, frame) of each."""
    for came, payload in wire.frames():
        if payload[:1] == b"{":
            yield came, json.loads(payload)


def until(wire: Wire, wanted: Callable[[Frame], bool]) -> int:
    """When the first matching frame arrived."""
    for came, frame in frames(wire):
        if wanted(frame):
            return came
    raise RuntimeError("the server hung up")


@contextmanager
def scripted_model() -> Iterator[str]:
    """The address of the model that both sides' CLI uses, in a separate process."""
    port = _free_port()
    command = [sys.executable, "-m", "fairlead_testing.model_api", "--port", str(port)]
    model = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        model.terminate()
        model.wait(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
