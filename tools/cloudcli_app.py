"""Fetches claudecodeui's published app (npm `@cloudcli-ai/cloudcli`): the front end alone, as a client for the tests.

That project is AGPL. Its app is used unmodified from a cache outside the clone; none of its files enter this
repository or our package. The archive is compared with the pinned hash before anything is taken out of it, and only
the folder `dist/` is. Standard library only.
"""

import base64
import hashlib
import sys
import tarfile
from pathlib import Path

from tools.clis import InstallFailed, attempt, cache_folder
from tools.npm_locked import fill_once, npm

PACKAGE = "@cloudcli-ai/cloudcli"
VERSION = "1.37.2"
INTEGRITY = "sha512-jwhcx2fbX9dALdH99v/WX4fYgO13cqm97c3K1ibwCoNHtw4iwIV5stBif/t6vVB7MU/LVcYmT+vli5cCiO1O6A=="
INSIDE = "package/dist/"
"""Where an npm archive has the front end."""


def app_folder() -> Path:
    """The built front end, whether or not it is there yet: what `--door claudecodeui=PORT,static=DIR` takes."""
    return cache_folder() / "cloudcli" / VERSION / "dist"


def fetch_app() -> None:
    fill_once(app_folder().parent, "claudecodeui's app", "5 MB", _unpack)


def _unpack(folder: Path) -> None:
    npm(folder, f"{PACKAGE}@{VERSION}", "pack", f"{PACKAGE}@{VERSION}", "--pack-destination", str(folder))
    (archive,) = folder.glob("*.tgz")
    check_integrity(archive)
    take_out(archive, folder / "dist")
    archive.unlink()


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
