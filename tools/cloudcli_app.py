"""Fetches claudecodeui's published app (npm `@cloudcli-ai/cloudcli`): the front end alone, as a client for the tests.

That project is AGPL. Its app is used unmodified from a cache outside the clone; none of its files enter this
repository or our package. The archive is compared with the pinned hash before anything is taken out of it, and only
the folder `dist/` is. Standard library only.
"""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tools.clis import InstallFailed, attempt, cache_folder, say

PACKAGE = "@cloudcli-ai/cloudcli"
VERSION = "1.37.2"
INTEGRITY = "sha512-jwhcx2fbX9dALdH99v/WX4fYgO13cqm97c3K1ibwCoNHtw4iwIV5stBif/t6vVB7MU/LVcYmT+vli5cCiO1O6A=="
INSIDE = "package/dist/"
"""Where an npm archive has the front end."""


def app_folder() -> Path:
    """The built front end, whether or not it is there yet: what `--door claudecodeui=PORT,static=DIR` takes."""
    return cache_folder() / "cloudcli-app" / VERSION


def fetch_app() -> None:
    target = app_folder()
    if target.exists():
        return
    if not shutil.which("npm"):
        raise InstallFailed("npm is missing, claudecodeui's app was not fetched: install nodejs and npm")
    say(f"fetching claudecodeui's app (5 MB) into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{VERSION}.", dir=target.parent))
    try:
        argv = ["npm", "pack", f"{PACKAGE}@{VERSION}", "--pack-destination", str(work), "--loglevel=error"]
        done = subprocess.run(argv, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        archives = list(work.glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            raise InstallFailed(f"npm could not fetch {argv[2]} (exit {done.returncode}, its words are above)")
        check_integrity(archives[0])
        take_out(archives[0], work / "dist")
        try:
            (work / "dist").rename(target)
        except OSError:
            # Another clone was quicker, which is as good.
            if not target.exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check_integrity(archive: Path) -> None:
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != INTEGRITY:
        raise InstallFailed(f"{PACKAGE}@{VERSION} has the hash {found}, not the pinned one: not installed")


def take_out(archive: Path, folder: Path) -> None:
    """The plain files of the front end, and nothing that would lie outside of the folder."""
    with tarfile.open(archive) as packed:
        for member in packed:
            below = member.name.removeprefix(INSIDE)
            if not member.isfile() or below == member.name or ".." in Path(below).parts:
                continue
            content = packed.extractfile(member)
            file = folder / below
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.read() if content else b"")


if __name__ == "__main__":
    sys.exit(0 if attempt(fetch_app) else 1)
