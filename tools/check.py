"""`make check`: lint, formatting, types, and the import rules. All tools run at once, because mypy takes longer than
the others together; the output of each is printed whole, in the order of this list.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"


def commands() -> list[list[str]]:
    sources = [name for name in ("src", "testing", "tests", "bench", "tools") if (ROOT / name).is_dir()]
    # The code for macOS is checked where it cannot be run.
    macos = ["mypy", "--platform", "darwin", "--cache-dir", ".mypy_cache/darwin", "src"]
    return [["ruff", "check"], ["ruff", "format", "--check"], ["mypy", *sources], macos, ["lint-imports", "--no-cache"]]


def main() -> int:
    started = [
        (
            " ".join(argv),
            subprocess.Popen(
                [str(BIN / argv[0]), *argv[1:]], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ),
        )
        for argv in commands()
    ]
    failed = False
    for title, tool in started:
        output, _ = tool.communicate()
        print(title, output, sep="\n", end="", flush=True)
        failed = failed or tool.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
