"""Fetches the official Python client of MCP (PyPI `mcp`), for the tests: it judges our server.

`tools/mcp-client/requirements.lock.txt` pins it and all its dependencies by hash. They go into a folder of the cache,
apart from our own environment. Standard library only.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from tools.clis import InstallFailed, attempt, cache_folder
from tools.install import VENV, network_env
from tools.npm_locked import fill_once

LOCK = Path(__file__).with_name("mcp-client") / "requirements.lock.txt"
WHAT = "the official MCP client"


def packages_folder() -> Path:
    """Where its packages are, whether or not they are fetched yet; another lock or Python is another folder."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache_folder() / "mcp-client" / f"{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}-{version}"


def fetch() -> None:
    fill_once(packages_folder(), WHAT, "12 MB", _install, program=str(VENV / "bin" / "uv"))


def _install(folder: Path) -> None:
    into = ("--python", str(VENV / "bin" / "python"), "--target", str(folder))
    argv = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", *into, "--require-hashes", "-r", str(LOCK)]
    done = subprocess.run(argv, env=network_env(), check=False)
    if done.returncode:
        raise InstallFailed(f"`uv pip install` failed for {WHAT} (exit {done.returncode}, its words are above)")


if __name__ == "__main__":
    sys.exit(0 if attempt(fetch) else 1)
