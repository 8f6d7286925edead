"""Tests the published package: builds the wheel, installs it into an empty environment, serves, and runs one turn
there.

Nothing of the clone is used: the environment, HOME, data and working folder are all new. Standard library only.
"""

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
from pathlib import Path

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
    if code := subprocess.run(argv, cwd=ROOT, env=network_env(), check=False).returncode:
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


def one_turn(command: Path, folder: Path) -> None:
    """Serve with the demo agent and run a prompt, as the README describes."""
    home, work, data = (folder / name for name in ("home", "work", "data"))
    for path in (home, work):
        path.mkdir()
    url = f"http://127.0.0.1:{free_port()}"
    env = {"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8", "FAIRLEAD_TOKEN": TOKEN, "FAIRLEAD_URL": url}
    options = ["--host", "127.0.0.1", "--port", url.rpartition(":")[2], "--data", str(data), "--on-stop", "end"]
    options += ["--agent", "demo", "--roots", str(work)]
    server = subprocess.Popen([command, "serve", *options], cwd=work, env=env, stdout=subprocess.DEVNULL)
    try:
        wait_until_healthy(url, server)
        front_page(url)
        asked = [str(command), "run", "--json", PROMPT]
        turn = subprocess.run(asked, cwd=work, env=env, capture_output=True, text=True, timeout=60, check=False)
        events = [json.loads(line) for line in turn.stdout.splitlines()]
        if turn.returncode or "from the wheel" not in turn.stdout or not all("seq" in event for event in events):
            raise Failed(f"`fairlead run` exited {turn.returncode}:\n{turn.stdout[-2000:]}{turn.stderr[-2000:]}")
        print(f"wheel: one turn, {len(events)} events: {' '.join(dict.fromkeys(event['type'] for event in events))}")
    finally:
        server.terminate()
        code = server.wait(timeout=30)
    if code not in (0, -15, 143):
        raise Failed(f"`fairlead serve` ended with {code} when asked to stop")


def main() -> int:
    try:
        if web.main([]):
            raise Failed("the web UI could not be built; npm's own words are above")
        wheel = build()
        print(f"wheel: {wheel.name}, {wheel.stat().st_size // 1024} kB", flush=True)
        with tempfile.TemporaryDirectory(prefix="fairlead-wheel-") as folder:
            one_turn(install(wheel, Path(folder) / "env"), Path(folder))
            check_testing(Path(folder) / "env")
    except (Failed, subprocess.TimeoutExpired) as failure:
        print(f"wheel: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
