"""The web UI in headless Chromium, on a real gateway with a text-only agent; compared with claudecodeui's app on the
same
gateway, where both can be measured.

tools/innet python bench/web.py [--quick] [--json FILE]

A part of `make bench`, which fetches claudecodeui's app from npm first. bench/README.md explains each row.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import sync_playwright

from fairlead.server.webui import BUILT
from figures import Figures, spread, table
from processes import Gateway
from tools.browser import browser_arguments, browser_path
from tools.cloudcli_app import app_folder
from web_apps import App, CloudApp, WebUi, ask, begun, run_turn

STREAMS, RATE = 10, 100
"""Sessions that stream at once, and deltas a second of each."""
THROTTLE = 4
TITLE = "Bench: a session"

Rows = dict[str, Sequence[float | str]]
Row = Callable[[App], float]


def progress(what: str) -> None:
    print(f"web: {what}", flush=True)


@contextmanager
def apps(folder: Path) -> Iterator[tuple[Gateway, list[App], str]]:
    """The gateway, the apps that are open on it, and why the peer is missing if it is."""
    static = app_folder()
    missing = "" if static.exists() else f"its app is not at {static}: python -m tools.cloudcli_app says why"
    gateway = Gateway(folder)
    if not missing:
        with socket.create_server(("127.0.0.1", 0)) as free:
            CloudApp.port = free.getsockname()[1]
        gateway.arguments = ("--door", f"claudecodeui={CloudApp.port},static={static}")
    gateway.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path(), args=browser_arguments())
            kinds: list[type[App]] = [WebUi] if missing else [WebUi, CloudApp]
            yield gateway, [kind(browser, gateway) for kind in kinds], missing
            browser.close()
    finally:
        gateway.stop()


def in_turns(sides: Sequence[App], rounds: int, row: Row) -> dict[str, float]:
    """Medians of samples that were taken in turns."""
    samples: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            samples[side.name].append(row(side))
    return {name: statistics.median(values) for name, values in samples.items()}


def side_by_side(found: dict[str, dict[str, float]]) -> Rows:
    rows: Rows = {}
    for name, values in found.items():
        ours, theirs = values[WebUi.name], values.get(CloudApp.name)
        rows[name] = (ours, "-", "-") if theirs is None else (ours, theirs, theirs / ours)
    return rows


# --- both apps -------------------------------------------------------------------------------------------------------


def compared(gateway: Gateway, sides: Sequence[App], long: tuple[str, str], count: int, quick: bool) -> Figures:
    rounds = 1 if quick else 5
    found: dict[str, dict[str, float]] = {}
    short = begun(gateway, TITLE)
    run_turn(gateway, short, "say 50 80")
    ending = run_turn(gateway, short, "paced 1 1000")[-1]
    progress("first load and time to interactive")
    loads = {side.name: side.first_load(TITLE) for side in sides}
    for number, name in enumerate(("first load as sent, kB", "first load if packed by gzip, kB", "requests of it")):
        found[name] = {side: float(load[number]) for side, load in loads.items()}
    name = f"time to interactive on a {THROTTLE}x slower processor, ms"
    found[name] = in_turns(sides, rounds, lambda side: side.interactive(TITLE, THROTTLE))
    progress("opening a short and a long session")
    found["open a session of 50 messages, ms"] = in_turns(sides, rounds, lambda side: side.opens(short, ending))
    found[f"open one of {count:,} messages, ms"] = in_turns(sides, rounds, lambda side: side.opens(*long))
    progress("from a delta to pixels")
    for side in sides:
        deltas = spread(side.delays(short, ending, 200 if quick else 1000, RATE))
        for part in ("p50", "p99"):
            found.setdefault(f"delta to pixels, {part}, ms", {})[side.name] = deltas[part]
    table(
        "The web UI, and claudecodeui's app on the same gateway",
        ("fairlead", "claudecodeui", "ratio"),
        side_by_side(found),
    )
    return dict(found)


# --- ours ------------------------------------------------------------------------------------------------------------


def streaming(gateway: Gateway, ours: App, seconds: float) -> Figures:
    """Typing in a session that streams, while nine others stream too; and the same while none streams."""
    progress(f"typing while {STREAMS} sessions stream")
    sessions = [begun(gateway, f"Bench: stream {number}") for number in range(STREAMS)]
    ending = run_turn(gateway, sessions[0], "paced 1 1000")[-1]
    found: Figures = {}
    with ours.page() as opened:
        opened.go(ours.session(sessions[0]), ending)
        opened.settled()
        for name in ("nothing streams", f"{STREAMS} stream"):
            if name != "nothing streams":
                for session in sessions:
                    ask(gateway, session, f"paced {int((seconds + 4) * RATE)} {RATE}")
                opened.page.wait_for_timeout(1000)
            waited, seen, lost = opened.typed(ours.field, seconds)
            found[name] = {"waited": spread(waited), "seen": spread(seen), "lost": lost}
    table(
        f"A key in the composer while {STREAMS} sessions stream {RATE} deltas a second each",
        ("input delay p50", "p99, ms", "to pixels p50", "p99, ms", "frames lost, %"),
        {
            name: (one["waited"]["p50"], one["waited"]["p99"], one["seen"]["p50"], one["seen"]["p99"], one["lost"])
            for name, one in found.items()
        },
    )
    return found


def memory(gateway: Gateway, ours: App, session: str, counts: Sequence[int]) -> tuple[Figures, str]:
    """The memory of a page that has received this many messages; and the last text of that session."""
    found: Figures = {}
    ending = run_turn(gateway, session, "paced 1 1000")[-1]
    with ours.page() as opened:
        opened.go(ours.session(session), ending)
        seen = 0
        for count in counts:
            progress(f"{count:,} messages come to an open page")
            run_turn(gateway, session, f"say {count - seen} 80")
            ending = run_turn(gateway, session, "paced 1 1000")[-1]
            opened.wait_for(ending)
            seen = count
            opened.page.wait_for_timeout(1000)
            found[f"{count:,} messages"] = {"heap": opened.heap() / 1e6, "elements": opened.nodes()}
    table(
        "A page that has seen so many messages come",
        ("heap, MB", "elements"),
        {name: tuple(one.values()) for name, one in found.items()},
    )
    return found, ending


# --- all together ----------------------------------------------------------------------------------------------------


def measure(quick: bool, folder: Path) -> Figures:
    if not (BUILT / "index.html").exists():
        return {"missing": "the web UI is not built: make web"}
    if browser_path() is None:
        return {"missing": "there is no Chromium: make clis"}
    count = 10_000 if quick else 100_000
    with apps(folder) as (gateway, sides, missing):
        long = begun(gateway, "Bench: a long session")
        held, ending = memory(gateway, sides[0], long, (100, count))
        keys = streaming(gateway, sides[0], 5 if quick else 15)
        both = compared(gateway, sides, (long, ending), count, quick)
    if missing:
        print(f"claudecodeui's app: not measured: {missing}")
    return {"memory": held, "streaming": keys, "beside": both, "missing": missing}


def run(quick: bool) -> Figures:
    """Run in a separate network namespace: no page reaches the internet."""
    root = Path(__file__).resolve().parents[1]
    subprocess.run([sys.executable, "-m", "tools.cloudcli_app"], cwd=root, check=False)
    subprocess.run([sys.executable, "-m", "tools.web"], cwd=root, check=False)
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        kept = Path(folder) / "figures.json"
        words = [str(root / "tools" / "innet"), sys.executable, __file__, "--json", str(kept)]
        done = subprocess.run([*words, "--quick"] if quick else words, check=False)
        if done.returncode == 77:
            return {"missing": "no network namespace here"}
        done.check_returncode()
        found: Figures = json.loads(kept.read_text())
        if set(found) == {"missing"}:
            print(f"web: not measured: {found['missing']}")
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller numbers")
    parser.add_argument("--json", type=Path, help="keep the figures here")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        found = measure(options.quick, Path(folder))
    progress(f"{time.monotonic() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
