"""Fetches claudecodeui itself (npm `@cloudcli-ai/cloudcli`), the peer that `make bench` measures beside the gateway.

That project is AGPL: it runs from the cache as it is published, and none of its files enter this repository or our
package. Its archive has the pinned hash; what it depends on is what npm finds for it that day. No package's own scripts
run, except that its database module is compiled here. Standard library only.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.clis import InstallFailed, Release, attempt, cache_folder, check_integrity, say
from tools.cloudcli_app import INTEGRITY, PACKAGE, VERSION

RELEASE = Release(VERSION, PACKAGE, INTEGRITY, f"node_modules/{PACKAGE}/dist-server/server/index.js", "180 MB")
NATIVE = "better-sqlite3"
PLATFORM = "@vscode/ripgrep-linux-x64"
"""The one optional package without which it does not start; the others are other people's programs, of 1 GB."""


def peer_program() -> Path:
    """What node runs, whether or not it is there yet."""
    return cache_folder() / "cloudcli-peer" / VERSION / RELEASE.program


def fetch_peer() -> None:
    target = cache_folder() / "cloudcli-peer" / VERSION
    if target.exists():
        return
    if not shutil.which("npm"):
        raise InstallFailed("npm is missing, claudecodeui was not fetched: install nodejs and npm")
    say(f"fetching claudecodeui ({RELEASE.size}) into {target}; its database module takes minutes to compile")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{VERSION}.", dir=target.parent))
    try:
        # A package.json of its own keeps npm from installing into a folder above.
        (work / "package.json").write_text('{"private": true}\n')
        _npm(work, "install", "--ignore-scripts", "--omit=optional", PLATFORM, f"{PACKAGE}@{VERSION}")
        check_integrity(work, RELEASE)
        _npm(work, "rebuild", NATIVE)
        work.chmod(0o755)
        try:
            work.rename(target)
        except OSError:
            # Another clone was quicker, which is as good.
            if not target.exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _npm(folder: Path, *words: str) -> None:
    argv = ["npm", *words, "--no-audit", "--no-fund", "--loglevel=error", "--no-update-notifier"]
    quiet = subprocess.DEVNULL
    done = subprocess.run(argv, cwd=folder, stdin=quiet, stdout=quiet, env=_compiling(), check=False)
    if done.returncode:
        raise InstallFailed(f"npm could not {words[0]} {words[-1]} (exit {done.returncode}, its words are above)")


def _compiling() -> dict[str, str]:
    """Our environment; native modules are built from source, against the headers of the node that is here."""
    env = {**os.environ, "npm_config_build_from_source": "true"}
    if node := shutil.which("node"):
        home = Path(node).resolve().parents[1]
        if (home / "include" / "node" / "node.h").exists():
            env["npm_config_nodedir"] = str(home)
    return env


if __name__ == "__main__":
    sys.exit(0 if attempt(fetch_peer) else 1)
