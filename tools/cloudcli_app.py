"""Fetches claudecodeui's published app (npm `@cloudcli-ai/cloudcli`): the front end alone, as a client for the tests.

That project is AGPL. Its app is used unmodified from a cache outside the clone; none of its files enter this
repository or our package. The archive is compared with the pinned hash before anything is extracted, and only
the folder `dist/` is. Standard library only.
"""

import base64
import hashlib
import sys
import tarfile
from functools import partial
from pathlib import Path

from tools.clis import InstallFailed, attempt, cache_folder
from tools.npm_locked import fill_once, npm

PACKAGE = "@cloudcli-ai/cloudcli"
VERSION = "1.37.2"
INTEGRITY = "sha512-jwhcx2fbX9dALdH99v/WX4fYgO13cqm97c3K1ibwCoNHtw4iwIV5stBif/t6vVB7MU/LVcYmT+vli5cCiO1O6A=="
OTHERS = {
    "1.36.1": "sha512-Ta0QDmmuoBq7UC8/U5y08uACEp71VVIU3DZwnrFQMHLPekrD08ED6WMgJzv5OmvWnjyweW28V/LsQsr2LWg5BA==",
    "1.37.3": "sha512-z9ewBL8imlK2IgfuribkbE2N/7XCV6z6cSevQFxaIAP3UdA3gzSI41MLMb+2RBEyiYgCAU6hPRPN7O1ZyK8RNw==",
}
"""The oldest that works on our door, and the newest: one conversation each."""
INSIDE = "package/dist/"
"""The path of the front end inside an npm archive."""


def app_folder(version: str = VERSION) -> Path:
    """The built front end, whether or not it is fetched yet: the DIR of `--door claudecodeui=PORT,static=DIR`."""
    return cache_folder() / "cloudcli" / version / "dist"


def fetch_app(version: str = VERSION) -> None:
    fill_once(app_folder(version).parent, f"claudecodeui's app {version}", "5 MB", partial(_unpack, version))


def fetch_apps() -> None:
    for version in (VERSION, *OTHERS):
        fetch_app(version)


def _unpack(version: str, folder: Path) -> None:
    npm(folder, f"{PACKAGE}@{version}", "pack", f"{PACKAGE}@{version}", "--pack-destination", str(folder))
    (archive,) = folder.glob("*.tgz")
    check_integrity(version, archive)
    take_out(archive, folder / "dist", INSIDE)
    archive.unlink()


def integrity_of(archive: Path) -> str:
    """The hash of a file, as npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()


def check_integrity(version: str, archive: Path) -> None:
    found = integrity_of(archive)
    if found != (INTEGRITY if version == VERSION else OTHERS[version]):
        raise InstallFailed(f"{PACKAGE}@{version} has the hash {found}, not the pinned one: not installed")


def take_out(archive: Path, folder: Path, inside: str, wanted: tuple[str, ...] = ("",)) -> None:
    """Extract the plain files below `inside` whose path then begins with one of `wanted`, and nothing whose path leads
    out of the folder."""
    with tarfile.open(archive) as packed:
        for member in packed:
            below = member.name.removeprefix(inside)
            if not member.isfile() or below == member.name or ".." in Path(below).parts:
                continue
            if not below.startswith(wanted):
                continue
            content = packed.extractfile(member)
            file = folder / below
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.read() if content else b"")


if __name__ == "__main__":
    sys.exit(0 if attempt(fetch_apps) else 1)
