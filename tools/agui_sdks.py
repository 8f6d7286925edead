"""Fetches the two official SDKs of AG-UI, which judge our protocol: the client from npm, the models from PyPI.

`tools/agui-client/package-lock.json` and `requirements.txt` next to it pin both and all their dependencies by hash.
They go into the same cache as the CLIs. Standard library only.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from tools.clis import InstallFailed, attempt, cache_folder
from tools.install import VENV, network_env
from tools.npm_locked import Locked, fill_once

CLIENT = Locked("agui-client", "AG-UI's client", "21 MB")
LOCK = CLIENT.pinned / "requirements.txt"


def models_folder() -> Path:
    """The folder with the Python packages, for PYTHONPATH; another lock or another Python is another folder."""
    name = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    return cache_folder() / "agui-models" / f"{name}-{sys.version_info[0]}.{sys.version_info[1]}"


def fetch_models() -> None:
    fill_once(models_folder(), "AG-UI's models for Python", "9 MB", _install)


def _install(folder: Path) -> None:
    uv, python = VENV / "bin" / "uv", VENV / "bin" / "python"
    argv = [uv, "pip", "install", "--quiet", "--require-hashes", "-r", LOCK, "--python", python, "--target", folder]
    if subprocess.run(list(map(str, argv)), check=False, env=network_env()).returncode:
        raise InstallFailed("AG-UI's models for Python were not installed")


if __name__ == "__main__":
    sys.exit(0 if all([attempt(CLIENT.fetch), attempt(fetch_models)]) else 1)
