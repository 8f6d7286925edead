"""`make test-long`: the long forms of the tests, with a new seed, and their last result kept in the repository."""

import datetime
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "tests" / "long-result.json"
RULES = ROOT / "build" / "long-rules.json"


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    seed = int(os.environ.get("FAIRLEAD_SEED") or random.SystemRandom().randrange(2**32))
    # A tree with changes has no commit that anyone else could look at.
    commit = git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")
    begun = time.monotonic()
    RULES.unlink(missing_ok=True)
    options = ["-m", "long", "--timeout=0", f"--rules-file={RULES}"]
    argv = ["tools/innet", sys.executable, "-m", "pytest", *options, "tests"]
    code = subprocess.run(argv, cwd=ROOT, env={**os.environ, "FAIRLEAD_SEED": str(seed)}, check=False).returncode
    result = {
        "commit": commit,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seed": seed,
        "seconds": round(time.monotonic() - begun),
        "result": "passed" if code == 0 else f"failed (pytest exit {code})",
    }
    shown = json.loads(RULES.read_text(encoding="utf-8")) if RULES.exists() else {}
    RESULT.write_text(json.dumps({**result, "rules": shown}, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))
    return code


if __name__ == "__main__":
    sys.exit(main())
