"""Fetches claudecodeui itself (npm `@cloudcli-ai/cloudcli`), the peer that `make bench` compares with the gateway.

That project is AGPL: it runs from the cache as it is published, and none of its files enter this repository or our
package. Its archive has the pinned hash; its dependencies are the ones that npm resolves that day. No package's own
scripts run, except that its database module is compiled here. Standard library only.
"""

import shutil
import sys
from pathlib import Path

from tools.clis import Release, attempt, cache_folder, check_integrity
from tools.cloudcli_app import INTEGRITY, PACKAGE, VERSION
from tools.npm_locked import fill_once, npm

RELEASE = Release(VERSION, PACKAGE, INTEGRITY, f"node_modules/{PACKAGE}/dist-server/server/index.js", "180 MB")
NATIVE = "better-sqlite3"
PLATFORM = "@vscode/ripgrep-linux-x64"
"""The one optional package without which it does not start; the others are third-party programs of 1 GB."""


def peer_program() -> Path:
    """The script that node runs, whether or not it is fetched yet."""
    return _folder() / RELEASE.program


def fetch_peer() -> None:
    fill_once(_folder(), "claudecodeui", f"{RELEASE.size}; minutes to compile", _install)


def _folder() -> Path:
    return cache_folder() / "cloudcli-peer" / VERSION


def _install(folder: Path) -> None:
    # A separate package.json keeps npm from installing into a parent folder.
    (folder / "package.json").write_text('{"private": true}\n')
    named = f"{PACKAGE}@{VERSION}"
    npm(folder, named, "install", "--ignore-scripts", "--omit=optional", PLATFORM, named)
    check_integrity(folder, RELEASE)
    npm(folder, NATIVE, "rebuild", NATIVE, env=_compiling())


def _compiling() -> dict[str, str]:
    """Native modules are built from source, against the headers of the installed node."""
    env = {"npm_config_build_from_source": "true"}
    if node := shutil.which("node"):
        home = Path(node).resolve().parents[1]
        if (home / "include" / "node" / "node.h").exists():
            env["npm_config_nodedir"] = str(home)
    return env


if __name__ == "__main__":
    sys.exit(0 if attempt(fetch_peer) else 1)
