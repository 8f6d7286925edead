"""Fetches npm packages that a lock file next to the tools pins by hash, into the same cache as the CLIs.

`tools/<name>/package-lock.json` pins a package and all its dependencies. No package's own scripts run. `fill_once`
creates every folder of the cache: filled under another name and renamed when complete, so the final name means
complete.
Standard library only.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.clis import InstallFailed, cache_folder, say


@dataclass(frozen=True)
class Locked:
    """`name` is the name of the folder with the lock; `what` is the name for people, `size` the download size."""

    name: str
    what: str
    size: str

    @property
    def pinned(self) -> Path:
        return Path(__file__).with_name(self.name)

    @property
    def folder(self) -> Path:
        """Where the packages are, whether or not they are fetched yet; another lock is another folder."""
        lock = (self.pinned / "package-lock.json").read_bytes()
        return cache_folder() / self.name / hashlib.sha256(lock).hexdigest()[:16]

    def fetch(self) -> None:
        fill_once(self.folder, self.what, self.size, self._install)

    def _install(self, folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(self.pinned / name, folder / name)
        npm(folder, self.what, "ci", "--ignore-scripts")


def fill_once(target: Path, what: str, size: str, fill: Callable[[Path], None], program: str = "npm") -> None:
    """Do nothing if the folder exists; otherwise `fill` gets an empty folder, which is then renamed to it. `program`:
    what it is filled with."""
    if target.exists():
        return
    if not shutil.which(program):
        todo = "install nodejs and npm" if program == "npm" else "run make install"
        raise InstallFailed(f"{program} is missing, {what} was not fetched: {todo}")
    say(f"fetching {what} ({size}) into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        fill(work)
        work.chmod(0o755)
        try:
            work.rename(target)
        except OSError:
            # Another clone was quicker, which is just as good.
            if not target.exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def npm(folder: Path, what: str, *words: str, env: Mapping[str, str] | None = None) -> None:
    """Run npm in that folder; `env` is added to our environment."""
    argv = ["npm", *words, "--no-audit", "--no-fund", "--loglevel=error", "--no-update-notifier"]
    quiet = subprocess.DEVNULL
    done = subprocess.run(argv, cwd=folder, stdin=quiet, stdout=quiet, env={**os.environ, **(env or {})}, check=False)
    if done.returncode:
        raise InstallFailed(f"`npm {words[0]}` failed for {what} (exit {done.returncode}, its words are above)")
