"""Fetches the two official SDKs of Claude's agent, which judge the shim: PyPI claude-agent-sdk and its npm sibling.

`tools/agent-sdk/requirements.txt` pins the Python one and its dependencies by hash. It comes as source, because the
wheels contain a whole Claude Code; the tests have their own. The npm one is pinned by its hash, without its optional
packages, which contain the same. Both go into the cache of the CLIs. Standard library only.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from tools.clis import InstallFailed, Release, attempt, cache_folder, check_integrity
from tools.install import VENV, network_env
from tools.npm_locked import fill_once, npm

LOCK = Path(__file__).with_name("agent-sdk") / "requirements.txt"

TYPESCRIPT = Release(
    "0.3.325",
    "@anthropic-ai/claude-agent-sdk",
    "sha512-MhSm2Fhk3DA/hhjdCKXDZWlnykpPWJjX42SogllAHMplY9ZKT+Ltb8QPtQxpe225Imfs4A8IKaNE4biivA+fHg==",
    "node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs",
    "65 MB",
    ("--omit=optional",),
)


def python_folder() -> Path:
    """Where the environment of the Python SDK is; another lock is another folder."""
    return cache_folder() / "agent-sdk-python" / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]


def python_program() -> Path:
    return python_folder() / "bin" / "python"


def typescript_program() -> Path:
    """The module to import."""
    return cache_folder() / "agent-sdk-typescript" / TYPESCRIPT.version / TYPESCRIPT.program


def fetch_python() -> None:
    fill_once(python_folder(), "claude-agent-sdk for Python", "30 MB", _install_python)


def _install_python(folder: Path) -> None:
    uv = VENV / "bin" / "uv"
    install = [uv, "pip", "install", "--quiet", "--require-hashes", "--no-binary", "claude-agent-sdk", "-r", LOCK]
    for argv in (
        [uv, "venv", "--quiet", "--clear", "--relocatable", "--python", VENV / "bin" / "python", folder],
        [*install, "--python", folder / "bin" / "python"],
    ):
        if subprocess.run(list(map(str, argv)), check=False, env=network_env()).returncode:
            raise InstallFailed("claude-agent-sdk for Python was not installed")


def fetch_typescript() -> None:
    folder = cache_folder() / "agent-sdk-typescript" / TYPESCRIPT.version
    fill_once(folder, f"{TYPESCRIPT.package} {TYPESCRIPT.version}", TYPESCRIPT.size, _install_typescript)


def _install_typescript(folder: Path) -> None:
    (folder / "package.json").write_text('{"private": true}\n')
    named = f"{TYPESCRIPT.package}@{TYPESCRIPT.version}"
    npm(folder, named, "install", "--ignore-scripts", *TYPESCRIPT.options, named)
    check_integrity(folder, TYPESCRIPT)


if __name__ == "__main__":
    sys.exit(0 if all([attempt(fetch_python), attempt(fetch_typescript)]) else 1)
