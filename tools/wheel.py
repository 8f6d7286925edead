"""Tests the published package: builds the wheel, installs it into an empty environment, serves, and runs one turn
there. Then one turn goes through an upgrade from this clone's installation to the wheel's, and back.

For the first turn nothing of the clone is used: the environment, HOME, data and working folder are all new. Standard
library only.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools import web
from tools.install import network_env

ROOT = Path(__file__).resolve().parent.parent
UV = ROOT / ".venv" / "bin" / "uv"
DIST = ROOT / "build" / "dist"
TOKEN = "a-token-for-this-try-alone-0123456789"
PROMPT = "SCRIPT:text from the wheel"
SHELL = "fairlead/web_dist/index.html"


class Failed(Exception):
    """A step did not do what a user would expect; the text names it."""


def uv(*arguments: str | Path) -> None:
    argv = [str(part) for part in (UV, *arguments, "--quiet")]
    env = network_env() if shutil.which("npm") else {**network_env(), "FAIRLEAD_BUILD_WITHOUT_UI": "1"}
    if code := subprocess.run(argv, cwd=ROOT, env=env, check=False).returncode:
        raise Failed(f"`{' '.join(argv)}` exited {code}; its own words are above")


def build() -> Path:
    """Build both distributions in isolation from the source; the wheel is built from the sdist, so both are tested."""
    shutil.rmtree(DIST, ignore_errors=True)
    uv("build", "--out-dir", DIST, "--build-constraints", "tools/build.lock.txt")
    uv("build", "--wheel", "--out-dir", DIST, "--build-constraints", "tools/build.lock.txt", "testing")
    [wheel] = DIST.glob("fairlead-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    strangers = [name for name in names if not name.startswith(("fairlead/", "fairlead-"))]
    if strangers or "fairlead/py.typed" not in names:
        raise Failed(f"the wheel holds {strangers or 'no fairlead/py.typed'}")
    if shutil.which("npm") and SHELL not in names:
        raise Failed(f"the wheel holds no {SHELL}: `python -m tools.web` builds the web UI")
    return wheel


def refuse_without_ui(folder: Path) -> None:
    """Check that a tree whose web UI was not built is not packaged silently."""
    folder.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("web_dist", "__pycache__"))
    pinned = ROOT / "tools" / "build.lock.txt"
    argv = (UV, "build", "--wheel", "--out-dir", folder / "dist", "--build-constraints", pinned, folder)
    tried = subprocess.run(list(map(str, argv)), env=network_env(), capture_output=True, text=True, check=False)
    if tried.returncode == 0 or "make web" not in tried.stderr:
        raise Failed(f"a wheel without the web UI was built, or refused without a reason:\n{tried.stderr[-2000:]}")
    print("wheel: without the web UI nothing is built", flush=True)


def install(wheel: Path, folder: Path) -> Path:
    uv("venv", "--python", ROOT / ".venv" / "bin" / "python", folder)
    uv("pip", "install", "--python", folder / "bin" / "python", "--constraints", "requirements.lock", wheel)
    return folder / "bin" / "fairlead"


def check_testing(folder: Path) -> None:
    """Install the test kit next to the gateway, and import it."""
    [kit] = DIST.glob("fairlead_testing-*.whl")
    python = folder / "bin" / "python"
    uv("pip", "install", "--python", python, "--constraints", "requirements.lock", kit)
    imports = "import fairlead_testing.replay, fairlead_testing.model_api, fairlead_testing.native_client"
    if subprocess.run([python, "-c", imports], cwd=folder, check=False).returncode:
        raise Failed(f"{kit.name} cannot be imported next to the gateway")
    print(f"wheel: {kit.name} is imported next to it", flush=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_healthy(url: str, server: subprocess.Popen[bytes], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            raise Failed(f"`fairlead serve` exited {server.returncode} before it answered")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                json.load(answer)
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise Failed(f"`fairlead serve` did not answer {url}/health within {seconds:.0f} s")


def front_page(url: str) -> None:
    """Check the web UI, with the script that it names; without npm, the page that states that it was not built."""
    with urllib.request.urlopen(f"{url}/", timeout=10) as answer:
        page = answer.read().decode()
    script = re.search(r'src="(/assets/[^"]+\.js)"', page)
    if script is None:
        if shutil.which("npm") or "was not built" not in page:
            raise Failed(f"the front page is not the web UI:\n{page[:500]}")
        return
    with urllib.request.urlopen(f"{url}{script[1]}", timeout=10) as answer:
        print(f"wheel: the front page loads {script[1]}, {len(answer.read()) // 1024} kB", flush=True)


class Place:
    """The folders and the address of one gateway, whichever installation serves it."""

    def __init__(self, folder: Path) -> None:
        home, self.work, data = (folder / name for name in ("home", "work", "data"))
        for path in (home, self.work):
            path.mkdir(parents=True)
        self.url = f"http://127.0.0.1:{free_port()}"
        self.env = {"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8", "FAIRLEAD_TOKEN": TOKEN}
        self.env |= {"FAIRLEAD_URL": self.url, "FAIRLEAD_DATA": str(data)}
        self.options = ["--host", "127.0.0.1", "--port", self.url.rpartition(":")[2]]
        self.options += ["--agent", "demo", "--roots", str(self.work)]

    @contextlib.contextmanager
    def served(self, command: Path, *more: str) -> Iterator[None]:
        """Serve with this installation; at the end SIGTERM."""
        argv = [str(command), "serve", *self.options, *more]
        server = subprocess.Popen(argv, cwd=self.work, env=self.env, stdout=subprocess.DEVNULL)
        try:
            wait_until_healthy(self.url, server)
            yield
        finally:
            server.terminate()
            code = server.wait(timeout=30)
        if code not in (0, -15, 143):
            raise Failed(f"`fairlead serve` ended with {code} when asked to stop")

    def call(self, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/v1/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


def one_turn(command: Path, place: Place) -> None:
    """Serve with the demo agent and run a prompt, as the README describes."""
    with place.served(command, "--on-stop", "end"):
        front_page(place.url)
        asked = [str(command), "run", "--json", PROMPT]
        turn = subprocess.run(
            asked, cwd=place.work, env=place.env, capture_output=True, text=True, timeout=60, check=False
        )
        events = [json.loads(line) for line in turn.stdout.splitlines()]
        if turn.returncode or "from the wheel" not in turn.stdout or not all("seq" in event for event in events):
            raise Failed(f"`fairlead run` exited {turn.returncode}:\n{turn.stdout[-2000:]}{turn.stderr[-2000:]}")
        print(f"wheel: one turn, {len(events)} events: {' '.join(dict.fromkeys(event['type'] for event in events))}")


def upgrade(clone: Path, wheel: Path, place: Place) -> None:
    """One turn with three permissions goes from the clone's gateway to the wheel's and back."""
    session = ""
    answered: set[str] = set()
    for command in (clone, wheel, clone):
        with place.served(command, "--on-stop", "end" if len(answered) == 2 else "detach"):
            if not session:
                session = place.call("sessions", {"cwd": str(place.work)})["session"]
                place.call(f"sessions/{session}/messages", {"text": "SCRIPT:loop 3"})
            asked = wait_for(place, session, "permission.asked", len(answered) + 1)[-1]["request"]
            place.call(f"permissions/{asked}", {"behavior": "allow"})
            answered.add(asked)
            if len(answered) == 3:
                [end] = wait_for(place, session, "turn.ended", 1)
                started = wait_for(place, session, "agent.started", 1)
                if end["status"] != "completed" or len(started) != 1:
                    raise Failed(f"a turn did not survive the upgrade: {started} {end}")
    print("wheel: one turn went through an upgrade and back, in one process of the agent")


def wait_for(place: Place, session: str, kind: str, count: int) -> list[dict[str, Any]]:
    """The events of this kind when there are so many."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        events = place.call(f"sessions/{session}/events?limit=500")["events"]
        found = [event for event in events if event["type"] == kind]
        if len(found) >= count:
            return found
        time.sleep(0.05)
    raise Failed(f"{kind} did not come {count} times")


def main() -> int:
    try:
        if web.main([]):
            raise Failed("the web UI could not be built; npm's own words are above")
        wheel = build()
        print(f"wheel: {wheel.name}, {wheel.stat().st_size // 1024} kB", flush=True)
        with tempfile.TemporaryDirectory(prefix="fairlead-wheel-") as folder:
            refuse_without_ui(Path(folder) / "no-ui")
            command = install(wheel, Path(folder) / "env")
            one_turn(command, Place(Path(folder) / "turn"))
            place = Place(Path(folder) / "upgrade")
            try:
                upgrade(ROOT / ".venv" / "bin" / "fairlead", command, place)
            finally:
                # After a failure the keeper may still hold the agent.
                subprocess.run([command, "stop", "--agents"], env=place.env, capture_output=True, check=False)
            check_testing(Path(folder) / "env")
    except (Failed, subprocess.TimeoutExpired) as failure:
        print(f"wheel: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
