"""Fetches the schema that Happy's own clients check envelopes with (npm `@slopus/happy-wire`), for the tests.

`tools/happy-wire/package-lock.json` pins it and all that it needs by hash. It goes into the same cache as the CLIs,
filled under another name and renamed when whole. Standard library only.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.clis import InstallFailed, cache_folder, say

PINNED = Path(__file__).with_name("happy-wire")


def wire_folder() -> Path:
    """Where the package is, whether or not it is there yet; another lock is another folder."""
    lock = (PINNED / "package-lock.json").read_bytes()
    return cache_folder() / "happy-wire" / hashlib.sha256(lock).hexdigest()[:16]


def fetch_wire() -> None:
    target = wire_folder()
    if target.exists():
        return
    if not shutil.which("npm"):
        raise InstallFailed("npm is missing, Happy's schema was not fetched: install nodejs and npm")
    say(f"fetching Happy's schema (7 MB) into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="happy-wire.", dir=target.parent))
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PINNED / name, work / name)
        argv = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--no-update-notifier"]
        done = subprocess.run(argv, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise InstallFailed(f"npm could not install Happy's schema (exit {done.returncode}, its words are above)")
        work.chmod(0o755)
        try:
            work.rename(target)
        except OSError:
            # Another clone was quicker, which is as good.
            if not target.exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    try:
        fetch_wire()
    except InstallFailed as failure:
        say(str(failure))
        sys.exit(1)
