"""`make bench`: the cost of the gateway, compared with a bare relay and Node's ws in the same run. Ratios, no verdicts.

python bench/run.py [--quick] [--only PART ...]

Every figure is of this machine at this moment: compare within a run, never between machines. The last run is stored in
build/bench.json, the distribution of its latencies as a chart in build/bench.svg.
"""

import argparse
import array
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build"

from ccui_chat import measure as measure_ccui_chat  # noqa: E402
from ccui_peer import run as measure_claudecodeui  # noqa: E402
from changes import measure as measure_changes  # noqa: E402
from cluster import measure as measure_cluster  # noqa: E402
from envelopes import measure as measure_envelopes  # noqa: E402
from figures import Figures, curves, spread, table  # noqa: E402
from keeper import measure as measure_keeper  # noqa: E402
from processes import Gateway, Measured, bare_relay, node_relay, python_start  # noqa: E402
from shim import measure as measure_shim  # noqa: E402
from terminals import measure as measure_terminals  # noqa: E402
from web import run as measure_web  # noqa: E402
from wires import Wire, drain  # noqa: E402

RATE = 200
"""Lines a second where latency is measured: a fast model's rate, and low enough that none waits for the previous one.
"""


@contextmanager
def gateway() -> Iterator[Gateway]:
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        made = Gateway(Path(folder))
        made.start()
        try:
            yield made
        finally:
            made.stop()


@contextmanager
def all_servers() -> Iterator[tuple[list[Measured], str]]:
    """The gateway and its peers, all running; and why one of them is not."""
    missing = ""
    running: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        folder = Path(name)
        (folder / "node").mkdir()
        try:
            ours = Gateway(folder)
            ours.start()
            running.append(ours)
            running.append(bare_relay(folder))
            try:
                running.append(node_relay(folder / "node"))
            except RuntimeError as reason:
                missing = str(reason)
            yield running, missing
        finally:
            for one in running:
                one.stop()


# --- from a line of the agent to a frame at the client --------------------------------------------------------------


def latency(quick: bool) -> Figures:
    rounds, count = (2, 200) if quick else (6, 400)
    ages: dict[str, list[float]] = {}
    with all_servers() as (servers, missing):
        wires = {server.name: server.watch() for server in servers}
        for number in range(rounds + 1):
            for server in servers:
                wire = wires[server.name]
                server.prompt(wire, f"paced {count} {RATE}")
                delays = [(came - left) / 1000 for _, left, came in wire.ages()]
                if number:  # the first is a warm-up
                    ages.setdefault(server.name, []).extend(delays)
        for wire in wires.values():
            wire.close()
    found = {name: spread(samples) for name, samples in ages.items()}
    base = found["bare websockets"]
    table(
        f"From a line of the agent to the frame at a subscriber, microseconds, {RATE} lines a second",
        ("p50", "p90", "p99", "p50, ratio", "p99, ratio"),
        {
            name: (f["p50"], f["p90"], f["p99"], f["p50"] / base["p50"], f["p99"] / base["p99"])
            for name, f in found.items()
        }
        | _not_measured(missing),
    )
    return found


def chat(quick: bool) -> Figures:
    """Cognova's chat compared with the native protocol, in turns: the cost that the projection adds to each delta."""
    rounds, count = (2, 200) if quick else (6, 400)
    ages: dict[str, list[float]] = {}
    with gateway() as server:
        server.create()
        for number in range(rounds + 1):
            for name, path, join in (
                ("native", "/v1/ws", {"type": "subscribe", "session": server.session}),
                ("chat", "/_ws/chat", {"type": "chat:subscribe", "conversationId": server.session}),
            ):
                wire = Wire(server.port, path)
                wire.send(join)
                next(came for came, payload in wire.frames() if b"subscribed" in payload)
                server.http.post(f"/v1/sessions/{server.session}/messages", json={"text": f"paced {count} {RATE}"})
                delays = [(came - left) / 1000 for _, left, came in wire.ages()]
                wire.close()
                if number:  # the first is a warm-up
                    ages.setdefault(name, []).extend(delays)
    found = {name: spread(samples) for name, samples in ages.items()}
    table(
        f"The same to a peer of Cognova's chat, microseconds, {RATE} deltas a second",
        ("p50", "p90", "p99"),
        _spreads(found),
    )
    return found


def commit(quick: bool) -> Figures:
    """The same path in two parts, by a gateway that records when each append was durable."""
    rounds, count = (1, 300) if quick else (4, 400)
    program = (sys.executable, str(HERE / "committed_serve.py"))
    arrivals: list[tuple[int, int, int]] = []
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        made = Gateway(Path(folder), program)
        made.start()
        wire = made.watch()
        for number in range(rounds + 1):
            made.prompt(wire, f"paced {count} {RATE}")
            ages = list(wire.ages())
            arrivals += ages if number else []
        wire.close()
        made.stop()
        noted = array.array("q")
        noted.frombytes(Path(f"{folder}/data.commits").read_bytes())
    durable = dict(zip(noted[::2], noted[1::2], strict=True))
    # A delta that was committed together with its block is not stored separately.
    arrivals = [one for one in arrivals if one[0] in durable]
    found = {
        "line to commit": spread([(durable[seq] - left) / 1000 for seq, left, _ in arrivals]),
        "commit to client": spread([(came - durable[seq]) / 1000 for seq, _, came in arrivals]),
    }
    table("The two parts of it, microseconds", ("p50", "p90", "p99"), _spreads(found))
    return found


# --- stored durably, delivered to many -----------------------------------------------------------------------------


def fanout(quick: bool) -> Figures:
    count = 5_000 if quick else 20_000
    found: Figures = {}
    rows: dict[str, Sequence[float | str]] = {}
    with all_servers() as (servers, missing):
        for subscribers in (1, 10, 100):
            for server in servers:
                rates, cpus = [], []
                wires = [server.watch() for _ in range(subscribers)]
                part = _burst(server, count, subscribers)
                for number in range(3 if quick else 4):
                    server.prompt(wires[0], f"burst {part}")
                    cpu, begun = server.cpu(), time.monotonic_ns()
                    _, last = drain(wires)
                    if number:  # the first is a warm-up
                        rates.append(part / (last - begun) * 1e9)
                        cpus.append((server.cpu() - cpu) / part / 1000)
                for wire in wires:
                    wire.close()
                one: Figures = {"events_per_s": max(rates), "cpu_us_per_event": min(cpus)}
                one["cpu_us_per_delivery"] = one["cpu_us_per_event"] / subscribers
                found.setdefault(server.name, {})[str(subscribers)] = one
                rows[f"{server.name}, {subscribers}"] = tuple(one.values())
    for name, by in found.items():
        more = (by["100"]["cpu_us_per_event"] - by["1"]["cpu_us_per_event"]) / 99
        by["cpu_us_per_further_subscriber"] = more
        rows[f"{name}, each further one"] = ("", "", more)
    table(
        "A burst of deltas to 1, 10 and 100 subscribers (the peers store nothing)",
        ("events/s", "CPU us/event", "CPU us/delivery"),
        rows | _not_measured(missing),
    )
    return found


def _burst(server: Measured, count: int, subscribers: int) -> int:
    """Fewer where each costs much, so that all take about as long."""
    return count // {1: 1, 10: 2, 100: 4 if isinstance(server, Gateway) else 25}[subscribers]


# --- work per event must not grow with the session -----------------------------------------------------------------


def length(quick: bool) -> Figures:
    sizes = (100, 20_000 if quick else 100_000)
    found: Figures = {}
    with gateway() as made:
        sessions: dict[int, str] = {}
        for size in sizes:
            sessions[size] = made.create()
            wire = made.watch()
            made.prompt(wire, f"fill {size}")
            drain([wire])
            wire.close()
        for name, value in _by_length(made, sessions, quick).items():
            found[name] = value
        found["open after a restart, ms"] = _after_restarts(made, sessions, 3 if quick else 7)
    short, long = sizes
    table(
        "The same in a session of few and of many stored events",
        (f"at {short:,}", f"at {long:,}", "ratio"),
        {name: (by[short], by[long], by[long] / by[short]) for name, by in found.items()},
    )
    return {name: {str(size): value for size, value in by.items()} for name, by in found.items()}


def _by_length(made: Gateway, sessions: dict[int, str], quick: bool) -> Figures:
    cpu: dict[int, list[float]] = {size: [] for size in sessions}
    opened: dict[int, list[float]] = {size: [] for size in sessions}
    paged: dict[int, list[float]] = {size: [] for size in sessions}
    count = 3000
    for _ in range(3 if quick else 6):
        for size, session in sessions.items():
            made.session = session
            wire = made.watch()
            before = made.cpu()
            made.prompt(wire, f"burst {count}")
            drain([wire])
            cpu[size].append((made.cpu() - before) / count / 1000)
            wire.close()
            wire = made.connect()
            for _ in range(20):
                begun = time.monotonic_ns()
                wire.subscribe(session)
                opened[size].append((time.monotonic_ns() - begun) / 1e6)
                begun = time.monotonic_ns()
                made.http.get(f"/v1/sessions/{session}/messages?limit=50").raise_for_status()
                paged[size].append((time.monotonic_ns() - begun) / 1e6)
            wire.close()
    return {
        "CPU of an event, us": {size: min(values) for size, values in cpu.items()},
        "subscribe from the end, ms": {size: statistics.median(values) for size, values in opened.items()},
        "last 50 messages, ms": {size: statistics.median(values) for size, values in paged.items()},
    }


def _after_restarts(made: Gateway, sessions: dict[int, str], times: int) -> dict[int, float]:
    """The first subscription to a session that was not used since the gateway started."""
    opened: dict[int, list[float]] = {size: [] for size in sessions}
    for number in range(times):
        made.stop()
        made.start()
        made.connect().close()
        # The first session pays for shared work: each is first equally often.
        for size, session in sorted(sessions.items(), reverse=number % 2 == 1):
            wire = made.connect()
            begun = time.monotonic_ns()
            wire.subscribe(session)
            opened[size].append((time.monotonic_ns() - begun) / 1e6)
            wire.close()
    return {size: statistics.median(values) for size, values in opened.items()}


def reconnect(quick: bool) -> Figures:
    """A client that reconnects pays for the events it missed, not for the whole log."""
    size = 20_000 if quick else 100_000
    found: Figures = {}
    with gateway() as made:
        made.create()
        wire = made.watch()
        made.prompt(wire, f"fill {size}")
        drain([wire])
        wire.close()
        end = made.head()
        for missed in (1, 10, 100, 1000, 10_000):
            times, cpus = [], []
            for _ in range(5):
                wire = made.connect()
                cpu, begun = made.cpu(), time.monotonic_ns()
                wire.subscribe(made.session, after=end - missed)
                wire.until_seq(end)
                times.append((time.monotonic_ns() - begun) / 1e6)
                cpus.append((made.cpu() - cpu) / 1e6)
                wire.close()
            found[str(missed)] = {"ms": statistics.median(times), "cpu_ms": statistics.median(cpus)}
    table(
        f"Coming back to a session of {size:,} events after having missed some",
        ("ms", "CPU ms", "CPU us/missed"),
        {f"{name} missed": (f["ms"], f["cpu_ms"], f["cpu_ms"] * 1000 / int(name)) for name, f in found.items()},
    )
    return found


# --- idle ------------------------------------------------------------------------------------------------------------


def idle(quick: bool) -> Figures:
    sessions, sockets, seconds = (200, 300, 3) if quick else (500, 1000, 10)
    found: Figures = {}
    with gateway() as made:
        for _ in range(50):
            made.create()
        before = made.memory()
        for _ in range(sessions):
            made.create()
        found["a loaded session without a process, kB"] = (made.memory() - before) / sessions / 1024
        opened = [made.watch() for _ in range(sockets)]
        used = made.cpu()
        time.sleep(seconds)
        found[f"CPU with {sockets} sockets and {sessions} sessions, % of a core"] = (made.cpu() - used) / seconds / 1e7
        for wire in opened:
            wire.close()
    # Each in a new process: memory that one measurement freed would be reused by the next.
    for name, watching in (("an idle socket, kB", False), ("a socket that watches a session, kB", True)):
        with gateway() as made:
            found[name] = _per_socket(made, made.watch if watching else made.connect, sockets)
    with all_servers() as (servers, _):
        for server in servers[1:]:
            found[f"an idle socket of {server.name}, kB"] = _per_socket(server, server.watch, sockets)
    starts = []
    for _ in range(3 if quick else 7):
        with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
            made = Gateway(Path(folder))
            starts.append(made.start())
            made.stop()
    found["process start to /health, s"] = statistics.median(starts)
    found["start of Python itself, s"] = statistics.median(python_start() for _ in range(5))
    table("Standing still", ("",), {name: (value,) for name, value in found.items()})
    return found


def _per_socket(server: Measured, make: Callable[[], Wire], count: int) -> float:
    """Kilobytes; a few sockets come first, so that pools and tables have reached their size."""
    first = [make() for _ in range(50)]
    before = server.memory()
    wires = [make() for _ in range(count)]
    used = (server.memory() - before) / count / 1024
    for wire in (*first, *wires):
        wire.close()
    return used


# --- projections, transcripts ----------------------------------------------------------------------------------------


def views(quick: bool) -> Figures:
    """In a separate process, in which a whole gateway runs."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        kept = Path(folder) / "figures.json"
        smaller = ["--quick"] if quick else []
        subprocess.run([sys.executable, str(HERE / "views.py"), "--json", str(kept), *smaller], check=True)
        found: Figures = json.loads(kept.read_text())
        return found


def envelopes(quick: bool) -> Figures:
    return measure_envelopes(quick)


def changes(quick: bool) -> Figures:
    return measure_changes(quick)


def terminals(quick: bool) -> Figures:
    return measure_terminals(quick)


def claudecodeui(quick: bool) -> Figures:
    return measure_claudecodeui(quick)


def ccui_chat(quick: bool) -> Figures:
    return measure_ccui_chat(quick)


def shim(quick: bool) -> Figures:
    return measure_shim(quick)


def keeper(quick: bool) -> Figures:
    return measure_keeper(quick)


def cluster(quick: bool) -> Figures:
    return measure_cluster(quick)


def web(quick: bool) -> Figures:
    return measure_web(quick)


def transcripts(quick: bool) -> Figures:
    """In a separate process, because its memory is measured."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        kept = Path(folder) / "figures.json"
        smaller = ["--quick", "--files", "1000", "--seconds", "5"] if quick else []
        subprocess.run([sys.executable, str(HERE / "transcripts.py"), "--json", str(kept), *smaller], check=True)
        found: Figures = json.loads(kept.read_text())
        return found


# --- all together ----------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[bool], Figures]] = {
    part.__name__: part
    for part in (
        latency,
        chat,
        commit,
        fanout,
        length,
        reconnect,
        idle,
        views,
        envelopes,
        changes,
        terminals,
        transcripts,
        ccui_chat,
        claudecodeui,
        shim,
        keeper,
        cluster,
        web,
    )
}


def _spreads(found: Figures) -> dict[str, Sequence[float | str]]:
    return {name: (figures["p50"], figures["p90"], figures["p99"]) for name, figures in found.items()}


def _not_measured(missing: str) -> dict[str, Sequence[float | str]]:
    return {f"node ws: not measured: {missing}": ()} if missing else {}


def about() -> Figures:
    asked = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller numbers")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some parts")
    options = parser.parse_args()
    results: Figures = {"about": about()}
    print("bench: " + ", ".join(f"{name} {value}" for name, value in results["about"].items()))
    begun = time.monotonic()
    for name in options.only:
        results[name] = PARTS[name](options.quick)
    BUILD.mkdir(exist_ok=True)
    (BUILD / "bench.json").write_text(json.dumps(results, indent=1))
    lines = {
        name: figures["curve"] for part in ("latency", "commit") for name, figures in results.get(part, {}).items()
    }
    if lines:
        (BUILD / "bench.svg").write_text(curves("Microseconds from a line of the agent to a subscriber", lines))
    print(
        f"\n{time.monotonic() - begun:.0f} s, load now {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: above them,"
    )
    print("tails are the machine's, not ours. Kept in build/bench.json and build/bench.svg. Parts of it by themselves:")
    print("bench/websocket_relay.py, bench/store_append.py.")


if __name__ == "__main__":
    main()
