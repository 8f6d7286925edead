"""The long form of the kill test of a cell: rounds of harm to nodes and NATS servers until there were enough.

    .venv/bin/python -m tools.cluster_kills --kills 1000

Each round has servers, nodes and sessions of its own, and is judged by the histories of all nodes. The sums are kept in
tests/cluster-result.json.
"""

import argparse
import asyncio
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "tests" / "cluster-result.json"
ROUND_S = 120.0

sys.path.insert(0, str(ROOT / "tests"))


def one_round(seed: int, kills: int) -> tuple[dict[str, int], dict[str, Any]]:
    from faults.cluster.checker import check
    from faults.cluster.nemesis import Nemesis

    folder = Path(tempfile.mkdtemp(prefix="fairlead-kills-"))
    nemesis = Nemesis(folder, random.Random(seed), sessions=6, seconds=ROUND_S)
    try:
        nemesis.start()
        nemesis.run(kills)
        nemesis.end()
        found = asyncio.run(check(folder, nemesis.address, nemesis.sessions))
    finally:
        nemesis.close()
    # Kept if anything went wrong.
    shutil.rmtree(folder, ignore_errors=True)
    return nemesis.counts, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000, help="how often something is killed or frozen")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    from faults.cluster.checker import FAULTS

    began, harm, found, longest, rounds = time.monotonic(), Counter[str](), Counter[str](), 0.0, 0
    while sum(harm.values()) < given.kills:
        done, counts = one_round(given.seed + rounds, given.kills - sum(harm.values()))
        rounds += 1
        longest = max(longest, counts.pop("longest_pause_s"))
        harm.update(done)
        found.update(counts)
        faults = {name: found[name] for name in FAULTS}
        result = {
            "commit": subprocess.run(
                ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
            ).stdout.strip(),
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seed": given.seed,
            "rounds": rounds,
            "seconds": round(time.monotonic() - began),
            "kills": sum(harm.values()),
            "harm": dict(harm),
            "result": "failed" if any(faults.values()) else "passed",
            "faults": faults,
            "seen": {name: count for name, count in sorted(found.items()) if name not in FAULTS},
            "longest_pause_s": longest,
        }
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps({name: result[name] for name in ("rounds", "kills", "result", "faults")}), flush=True)
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
