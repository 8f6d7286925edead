"""Finds the real Claude Code and its version. The version is cached: a JavaScript CLI takes a second to print it."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agents.claude.versions import dotted, parse_version
from fairlead.client.errors import Missing
from fairlead.system.private_files import write_private

MARK: Final = "# Written by: fairlead shim install"
"""A line of the executable that `fairlead shim install` writes."""
_HEAD_BYTES: Final = 512
VERSION_SECONDS: Final = 30.0
_MOST_VERSIONS: Final = 20


def find_real_cli(configured: str, path: str) -> str:
    """The configured executable, else the first `claude` in PATH that is not the shim. Raises Missing."""
    if configured and "/" in configured:
        candidates = [configured]
    else:
        candidates = [os.path.join(folder, configured or "claude") for folder in path.split(os.pathsep) if folder]
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK) and not is_shim(candidate):
            return candidate
    raise Missing(
        "Claude Code was not found in PATH. Install it (npm install -g @anthropic-ai/claude-code), or name it with the "
        "setting claude."
    )


def is_shim(file: str) -> bool:
    with contextlib.suppress(OSError), open(file, "rb") as opened:
        return MARK.encode() in opened.read(_HEAD_BYTES)
    return False


def version_of(command: Sequence[str], env: Mapping[str, str]) -> str:
    """The version of the CLI that this command starts; empty if it prints none."""
    # `node cli.js`: the last file of the command is the program.
    file = os.stat(shutil.which(command[-1]) or command[-1])
    key = f"{os.path.realpath(command[-1])} {file.st_mtime_ns} {file.st_size}"
    cache = Path(env.get("XDG_CACHE_HOME") or f"{env.get('HOME', '')}/.cache") / "fairlead" / "versions.json"
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, msgspec.DecodeError):
        known = msgspec.json.decode(cache.read_bytes(), type=dict[str, str])
    if key in known:
        return known[key]
    version = _ask(command, env)
    if version:
        newest = dict([*known.items(), (key, version)][-_MOST_VERSIONS:])
        with contextlib.suppress(OSError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            write_private(cache, msgspec.json.encode(newest))
    return version


def _ask(command: Sequence[str], env: Mapping[str, str]) -> str:
    try:
        asked = subprocess.run(
            [*command, "--version"],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = parse_version(asked.stdout.decode("utf-8", "replace"))
    return dotted(found) if found else ""
