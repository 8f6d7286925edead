"""Fetches npm packages that a lock file beside the tools pins by hash, into the same cache as the CLIs.

`tools/<name>/package-lock.json` pins a package and all that it needs. Its folder is filled under another name and
renamed when whole, so a right name means complete. No package's own scripts run. Standard library only.
"""

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.clis import InstallFailed, cache_folder, say


@dataclass(frozen=True)
class Locked:
    """`name` is that of the folder with the lock; `what` is it for people, `size` is what has to be fetched."""

    name: str
    what: str
    size: str

    @property
    def pinned(self) -> Path:
        return Path(__file__).with_name(self.name)

    @property
    def folder(self) -> Path:
        """Where the packages are, whether or not they are there yet; another lock is another folder."""
        lock = (self.pinned / "package-lock.json").read_bytes()
        return cache_folder() / self.name / hashlib.sha256(lock).hexdigest()[:16]

    def fetch(self) -> None:
        target = self.folder
        if target.exists():
            return
        if not shutil.which("npm"):
            raise InstallFailed(f"npm is missing, {self.what} was not fetched: install nodejs and npm")
        say(f"fetching {self.what} ({self.size}) into {target}")
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f"{self.name}.", dir=target.parent))
        try:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(self.pinned / name, work / name)
            argv = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
            argv += ["--no-update-notifier"]
            done = subprocess.run(argv, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
            if done.returncode:
                raise InstallFailed(f"npm could not install {self.what} (exit {done.returncode}, its words are above)")
            work.chmod(0o755)
            try:
                work.rename(target)
            except OSError:
                # Another clone was quicker, which is as good.
                if not target.exists():
                    raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
