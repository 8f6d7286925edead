"""Fetches the programs that the tests need: three Claude Code CLIs from npm, and Debian's `ip`, `unshare`, `vim`,
`less`, `bwrap` and `zsh`.

The CLIs go into a cache outside the clone, one folder per version with an entry `claude`, so that every clone
shares them. A folder is filled under another name and renamed when complete, so the final name means complete.
Standard library only.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tools.debian import apt_install


@dataclass(frozen=True)
class Release:
    """One published CLI: its npm package, that package's hash (empty: any), and the path of its program inside."""

    version: str
    package: str
    integrity: str
    program: str
    size: str
    options: tuple[str, ...] = ()


# The oldest we support, the last that dials a local --sdk-url, and the newest.
RELEASES = (
    Release(
        "2.1.37",
        "@anthropic-ai/claude-code",
        "sha512-YNrhAhWh/WAXAibZWfGBIUcMp+5caHGJKPkOjKSgYnCNQf7f+fP7eVTF1tr5FvvEksk2d9/HJgnh1fqOo1mP/A==",
        "node_modules/@anthropic-ai/claude-code/cli.js",
        "69 MB",
        ("--omit=optional",),
    ),
    Release(
        "2.1.120",
        "@anthropic-ai/claude-code-linux-x64",
        "sha512-pQtB89fnIOv5HBSFj7liCCcgNl/cNqaysdkFF6pkSt8wKLZfYZ9OHl3c3nkNSiDaIzpstvKnTg1xGQOA1kFwiA==",
        "node_modules/@anthropic-ai/claude-code-linux-x64/claude",
        "235 MB",
    ),
    Release(
        "2.1.325",
        "@anthropic-ai/claude-code-linux-x64",
        "sha512-BqZzMvP/zgLLL34S+7OzbG+cyoFp7gwWHU5koVwsyMlTAz+0zZAmbY+UkzvtN2RXxp6AcMenbYIjQJxoXfUY3w==",
        "node_modules/@anthropic-ai/claude-code-linux-x64/claude",
        "350 MB",
    ),
)

NATIVE_SINCE = (2, 1, 113)
"""The first version that is an executable; earlier ones are a script for node."""


def release_of(version: str) -> Release:
    """Any published version: a pinned one as it is pinned, another in the package layout of its age, without a hash."""
    for release in RELEASES:
        if release.version == version:
            return release
    if tuple(int(number) for number in version.split(".")) < NATIVE_SINCE:
        return replace(RELEASES[0], version=version, integrity="")
    return replace(RELEASES[-1], version=version, integrity="")


# program -> the Debian package that has it
PROGRAMS = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "vim": "vim",
    "less": "less",
    "bwrap": "bubblewrap",
    "zsh": "zsh",
}


class InstallFailed(Exception):
    """A program that the tests need could not be fetched; the text names it and what to do."""


def cache_folder() -> Path:
    """Where the CLIs are stored: $FAIRLEAD_CACHE, else under the user's cache folder."""
    if chosen := os.environ.get("FAIRLEAD_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead"


def program_path(version: str) -> Path:
    """The CLI of that version, whether or not it is fetched yet."""
    return cache_folder() / "cli" / version / "claude"


def say(text: str) -> None:
    print(f"clis: {text}", flush=True)


def integrity(folder: Path, release: Release) -> str:
    """The registry's hash of the package that npm installed there; npm has compared the download with it."""
    listed = json.loads((folder / "node_modules" / ".package-lock.json").read_text())["packages"]
    return str(listed[f"node_modules/{release.package}"]["integrity"])


def check_integrity(folder: Path, release: Release) -> None:
    # A version that is not pinned is accepted with whatever hash it has.
    found = integrity(folder, release)
    if release.integrity and found != release.integrity:
        raise InstallFailed(
            f"{release.package}@{release.version} has the hash {found}, not the pinned one: not installed"
        )


def put_in_place(work: Path, target: Path) -> None:
    """Rename the complete folder to its final name, replacing an incomplete one that was left there."""
    if target.exists() and not (target / "claude").exists():
        shutil.rmtree(target)
    try:
        work.rename(target)
    except OSError:
        # Another clone was quicker, which is just as good.
        if not (target / "claude").exists():
            raise


def fetch(release: Release) -> None:
    target = program_path(release.version).parent
    if program_path(release.version).exists():
        return
    if not shutil.which("npm"):
        raise InstallFailed(f"npm is missing, Claude Code {release.version} was not fetched: install nodejs and npm")
    begun = time.monotonic()
    say(f"fetching Claude Code {release.version} ({release.size}) into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{release.version}.", dir=target.parent))
    try:
        # A separate package.json keeps npm from installing into a parent folder.
        (work / "package.json").write_text('{"private": true}\n')
        argv = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        argv += ["--no-update-notifier", *release.options, f"{release.package}@{release.version}"]
        done = subprocess.run(argv, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise InstallFailed(f"npm could not install {argv[-1]} (exit {done.returncode}, its words are above)")
        check_integrity(work, release)
        program = work / release.program
        program.chmod(0o755)
        (work / "claude").symlink_to(release.program)
        work.chmod(0o755)
        put_in_place(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f"Claude Code {release.version} ready in {time.monotonic() - begun:.0f} s")


def fetch_programs() -> None:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)]
    if missing and not apt_install(*missing):
        raise InstallFailed(f"cannot install {' '.join(missing)}: run `apt-get install {' '.join(missing)}` as root")


def attempt(step: Callable[[], None]) -> bool:
    """Run a step; a failure prints one line and does not prevent the other steps."""
    try:
        step()
    except InstallFailed as failure:
        say(str(failure))
        return False
    return True


def main() -> int:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        say("the real-CLI tests run on Linux x86_64 only: nothing fetched")
        return 0
    steps: list[Callable[[], None]] = [fetch_programs, *(partial(fetch, release) for release in RELEASES)]
    return 1 if sum(not attempt(step) for step in steps) else 0


if __name__ == "__main__":
    sys.exit(main())
