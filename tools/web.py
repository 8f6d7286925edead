"""Builds the web UI into the package (src/fairlead/web_dist) when its sources changed, or checks and tests it.

`python -m tools.web` builds, `python -m tools.web test` type-checks, tests and builds. Without npm the build is skipped
with one line: the gateway's front page then states that it has no UI. Standard library only.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tools.install import network_env

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
BUILT = ROOT / "src" / "fairlead" / "web_dist"
STAMP = BUILT / ".sources"
INSTALLED = WEB / "node_modules" / ".fairlead-lock"


def sources() -> list[Path]:
    """The files that the build depends on, in a fixed order."""
    single = ("package-lock.json", "package.json", "tsconfig.json", "vite.config.ts", "index.html")
    folders = (path for name in ("src", "public") for path in sorted((WEB / name).rglob("*")) if path.is_file())
    return [*(WEB / name for name in single), *folders]


def digest(paths: list[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        data = path.read_bytes()
        found.update(f"{path.relative_to(ROOT)} {len(data)}\n".encode())
        found.update(data)
    return found.hexdigest()


def npm(*arguments: str) -> int:
    return subprocess.run(["npm", *arguments], cwd=WEB, env=network_env(), check=False).returncode


def install() -> bool:
    """Install the locked packages, once for each lock file."""
    wanted = digest([WEB / "package-lock.json"])
    if INSTALLED.exists() and INSTALLED.read_text() == wanted:
        return True
    if npm("ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error"):
        return False
    INSTALLED.write_text(wanted)
    return True


def build() -> bool:
    wanted = digest(sources())
    if STAMP.exists() and STAMP.read_text() == wanted:
        return True
    if not install() or npm("run", "--silent", "build", "--", "--logLevel=warn"):
        return False
    STAMP.write_text(wanted)
    print(f"web: built into {BUILT.relative_to(ROOT)}", flush=True)
    return True


def main(arguments: list[str]) -> int:
    if shutil.which("npm") is None:
        print("web: npm is not installed, so the web UI is not built; everything else works")
        # A test run that tests nothing must fail.
        return 1 if arguments == ["test"] else 0
    if arguments == ["test"] and (not install() or npm("run", "--silent", "check") or npm("run", "--silent", "test")):
        return 1
    return 0 if build() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
