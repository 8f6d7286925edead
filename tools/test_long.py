"""`make test-long`: the long forms of the tests, with a new seed, and every test of the real CLI on every pinned
version (`make test` runs all on the newest and an eighth of them on one other); the last result is stored in the
repository.
"""

import datetime
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from tools.clis import RELEASES

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "tests" / "long-result.json"
BUILD = ROOT / "build"
RULES = BUILD / "long-rules.json"


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    seed = int(os.environ.get("FAIRLEAD_SEED") or random.SystemRandom().randrange(2**32))
    # A tree with changes has no commit that other people could check out.
    commit = git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")
    begun = time.monotonic()
    RULES.unlink(missing_ok=True)
    env = {**os.environ, "FAIRLEAD_SEED": str(seed), "FAIRLEAD_CLIS": "all", "FAIRLEAD_ACP": "all"}
    pytest = ["tools/innet", sys.executable, "-m", "pytest"]
    long = [*pytest, "-m", "long", "--timeout=0", f"--rules-file={RULES}", "tests"]
    code = subprocess.run(long, cwd=ROOT, env=env, check=False).returncode
    # The laws, with all their examples.
    laws = [*pytest, "-q", "-m", "not long", "--hypothesis-profile=long", f"--rules-file={BUILD / 'laws-rules.json'}"]
    laws += ["tests/laws", "tests/server/websocket"]
    code = subprocess.run(laws, cwd=ROOT, env=env, check=False).returncode or code
    # These show their rules in every `make test`: the stored result is that all versions passed.
    versions = [*pytest, "-q", "-m", "not long", f"--rules-file={BUILD / 'versions-rules.json'}", "tests/e2e"]
    code = subprocess.run(versions, cwd=ROOT, env=env, check=False).returncode or code
    result = {
        "commit": commit,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seed": seed,
        "clis": [release.version for release in RELEASES],
        "seconds": round(time.monotonic() - begun),
        "result": "passed" if code == 0 else f"failed (pytest exit {code})",
    }
    shown = json.loads(RULES.read_text(encoding="utf-8")) if RULES.exists() else {}
    RESULT.write_text(json.dumps({**result, "rules": shown}, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))
    return code


if __name__ == "__main__":
    sys.exit(main())
