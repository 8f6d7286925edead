"""Fetches the common parsers and generators of API documents, for the tests: they judge ours.

AsyncAPI's own parser and openapi-typescript (npm), and openapi-python-client (PyPI). `tools/api-judges` pins them and
all their dependencies by hash. They go into folders of the cache, apart from our own environment. Standard library
only.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from tools.clis import InstallFailed, attempt, cache_folder
from tools.install import VENV, network_env
from tools.npm_locked import Locked, fill_once

PARSERS = Locked("api-judges", "parsers of API documents", "30 MB")
LOCK = Path(__file__).with_name("api-judges") / "requirements.lock.txt"
WHAT = "a generator of Python clients"


def python_folder() -> Path:
    """Where the generator's packages are, whether or not they are fetched yet."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache_folder() / "api-judges" / f"{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}-{version}"


def fetch() -> None:
    PARSERS.fetch()
    fill_once(python_folder(), WHAT, "25 MB", _install, program=str(VENV / "bin" / "uv"))


def _install(folder: Path) -> None:
    into = ("--python", str(VENV / "bin" / "python"), "--target", str(folder))
    argv = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", *into, "--require-hashes", "-r", str(LOCK)]
    done = subprocess.run(argv, env=network_env(), check=False)
    if done.returncode:
        raise InstallFailed(f"`uv pip install` failed for {WHAT} (exit {done.returncode}, its words are above)")


if __name__ == "__main__":
    sys.exit(0 if attempt(fetch) else 1)
