"""Fetches the dependencies of the browser tests: a Chromium, and xterm.js for the page that shows a terminal.

Chromium's headless shell is the same engine without the windows of a desktop, and opens a page in a quarter of the CPU
time: it is used where it exists, and installed from Debian when we may. Otherwise any Chromium or Chrome of the machine
is used. Playwright drives it over a pipe and never fetches its own browser. Standard library only.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.clis import InstallFailed, attempt
from tools.debian import apt_install
from tools.npm_locked import Locked

SHELL = "chromium-headless-shell"
PROGRAMS = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

FLAGS = (
    "--disable-gpu",
    # The CPU does the compositing either way: without a separate process it costs a tenth less.
    "--in-process-gpu",
    # Without a GPU a terminal painted by WebGL costs seconds: without WebGL, it is painted another way.
    "--disable-3d-apis",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

XTERM = Locked("xterm", "xterm.js", "1 MB")


def browser_path() -> Path | None:
    """The browser of this machine, if there is one."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return Path(found) if found else None


def browser_arguments() -> list[str]:
    """The command line flags of the browser: it contacts nothing but the pages it is shown."""
    # Chromium's own sandbox does not work for root, who is in a separate namespace here.
    return [*FLAGS, *(("--no-sandbox",) if os.geteuid() == 0 else ())]


def fetch_browser() -> None:
    found = browser_path()
    if found is not None and (found.name == SHELL or not apt_has(SHELL)):
        return
    # Only newer Debian releases have the shell; elsewhere the whole browser is used.
    if not (apt_install(SHELL) or found or apt_install("chromium")):
        raise InstallFailed(f"no browser, and it cannot be installed: run `apt-get install {SHELL}` as root")


def apt_has(package: str) -> bool:
    """Whether we may install it, and the package lists of this machine have it."""
    if os.geteuid() != 0 or not shutil.which("apt-cache"):
        return False
    asked = subprocess.run(["apt-cache", "show", package], check=False, capture_output=True)
    return asked.returncode == 0


def xterm_files() -> tuple[Path, ...]:
    """The files that a page with a terminal loads, whether or not they are fetched yet."""
    packages = XTERM.folder / "node_modules" / "@xterm"
    names = ("xterm/lib/xterm.js", "xterm/css/xterm.css", "addon-fit/lib/addon-fit.js")
    return tuple(packages / name for name in names)


def main() -> int:
    # Both are tried: a failure of one does not prevent the other.
    return 1 if sum(not attempt(step) for step in (fetch_browser, XTERM.fetch)) else 0


if __name__ == "__main__":
    sys.exit(main())
