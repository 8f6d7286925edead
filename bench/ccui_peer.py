"""claudecodeui compared with the gateway, in its own protocol, with the same CLI on the same scripted model: how long a
person waits, and what it costs the server.

tools/innet python bench/ccui_peer.py [--quick] [--json FILE]

A part of `make bench`, which fetches claudecodeui from npm first. Every row sends the same requests to both, in
turns. The ratio tells how many times better ours is: above 1 ours is ahead. bench/README.md explains each row.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ccui_sides import Frame, Ours, Side, Theirs, frames, scripted_model, until
from figures import Figures, table
from processes import agent_in
from tools.clis import RELEASES, program_path
from tools.cloudcli_peer import peer_program
from transcripts import row as transcript_row

LINE = "%07d the quick brown fox jumps over the lazy dog, and then it does so once more\n"
NEWEST = RELEASES[-1].version
MISSED_S = 15
"""After so many seconds a change counts as missed: claudecodeui polls every 6 s, and never reports a row that was
written before its first poll. Its pings come every 30 s."""

Row = Callable[[Side], float]


# --- turns, with the real CLI ---------------------------------------------------------------------------------------


def first_token(side: Side) -> float:
    """Milliseconds until the first text of an answer that takes 10 s arrives."""
    wire, session = side.wire(), side.session()
    begun = time.monotonic_ns()
    side.send(wire, session, "SCRIPT:slow 40")
    came = until(wire, _is_words)
    until(wire, _is_end)
    wire.close()
    return (came - begun) / 1e6


def turns(side: Side) -> tuple[float, float]:
    """Milliseconds of a short turn in a new session, and of a second one."""
    wire, session = side.wire(), side.session()
    taken = []
    for text in ("SCRIPT:text one", "SCRIPT:text two"):
        begun = time.monotonic_ns()
        side.send(wire, session, text)
        taken.append((until(wire, _is_end) - begun) / 1e6)
    wire.close()
    return taken[0], taken[1]


def abort(side: Side) -> float:
    """Milliseconds from the abort request to the end of the run, while the model streams."""
    wire, session = side.wire(), side.session()
    side.send(wire, session, "SCRIPT:slow 400")
    # Both report that the CLI has started; one of them sends nothing more until the whole text is there.
    until(wire, lambda frame: bool(frame.get("kind") == "session_upserted" and frame.get("providerSessionId")))
    time.sleep(2)
    begun = time.monotonic_ns()
    wire.send({"type": "chat.abort", "sessionId": session})
    came = until(wire, _is_end)
    wire.close()
    return (came - begun) / 1e6


# --- events, with an agent that only sends text ---------------------------------------------------------------------


def reconnect(side: Side, count: int = 1000) -> float:
    """Milliseconds from a new connection until the 1,000 missed texts have arrived."""
    wire, session = side.wire(), side.session()
    side.send(wire, session, f"held {count + 1} 200")
    first = 0
    seen = 0
    for _, frame in frames(wire):
        if _is_words(frame):
            seen += 1
            first = first or int(frame["seq"])
        if seen > count:
            break
    wire.close()
    begun = time.monotonic_ns()
    again = side.wire()
    again.send({"type": "chat.subscribe", "sessions": [{"sessionId": session, "lastSeq": first}]})
    came = begun
    for _ in range(count):
        came = until(again, _is_words)
    again.send({"type": "chat.abort", "sessionId": session})
    until(again, _is_end)
    again.close()
    return (came - begun) / 1e6


def events_memory(side: Side, count: int, size: int = 100_000) -> float:
    """Megabytes that a run of large texts leaves in memory, with a client that has read them all."""
    wire, session = side.wire(), side.session()
    before = side.memory()
    side.send(wire, session, f"say {count} {size}")
    until(wire, _is_end)
    used = (side.memory() - before) / 1e6
    wire.close()
    return max(used, 0.1)


# --- transcripts -----------------------------------------------------------------------------------------------------


def history(side: Side, session: str) -> float:
    """Milliseconds for the last page of a long transcript."""
    begun = time.monotonic_ns()
    answer = side.http.get(f"/api/providers/sessions/{session}/messages?limit=20&offset=0").raise_for_status()
    taken = (time.monotonic_ns() - begun) / 1e6
    found = answer.json()
    messages = found.get("data", found)["messages"]
    if len(messages) != 20:
        raise RuntimeError(f"{side.name} has a page of {len(messages)}")
    return taken


def changed(side: Side, path: Path, session: str) -> float:
    """Milliseconds from a row that another program appends to a transcript until a client is notified."""
    wire = side.wire()
    wire.socket.settimeout(MISSED_S)
    try:
        for _ in range(5):
            with path.open("ab") as file:
                file.write(transcript_row(session, int(time.time()), "user"))
            begun = time.monotonic_ns()
            with suppress(TimeoutError):
                came = until(
                    wire, lambda frame: frame.get("kind") == "session_upserted" and frame["sessionId"] == session
                )
                return (came - begun) / 1e6
    finally:
        wire.close()
    raise RuntimeError(f"{side.name} notified nobody of a changed transcript")


def write_transcript(side: Side, session: str, size: int) -> Path:
    folder = side.folder / ".claude" / "projects" / str(side.project).replace("/", "-").replace(".", "-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session}.jsonl"
    with path.open("wb") as file:
        number = 0
        while file.tell() < size:
            kind = "assistant" if number % 2 else "user"
            row = transcript_row(session, number, kind)
            file.write(row.replace(b'"/srv/project"', json.dumps(str(side.project)).encode()))
            number += 1
    return path


# --- terminals -------------------------------------------------------------------------------------------------------


def output(side: Side, path: Path) -> tuple[float, float]:
    """(megabytes a second, milliseconds of the server's CPU time per 10 MB) of a file that a shell prints."""
    size = path.stat().st_size
    before = side.cpu()
    begun = time.monotonic_ns()
    wire = side.shell(f"cat {path}")
    came = begun
    for arrived, payload in wire.frames():
        came = arrived
        if b"Process exited" in payload:
            break
    taken = side.cpu() - before
    wire.close()
    return size / ((came - begun) / 1e9) / 1e6, taken / 1e6 * (10e6 / size)


def lazy_viewer(side: Side, seconds: float) -> float:
    """Megabytes that a viewer who does not read costs, attached to a program that does not stop."""
    before = side.memory()
    wire = side.shell("yes a line that is printed for ever")
    time.sleep(seconds)
    used = (side.memory() - before) / 1e6
    wire.close()
    return max(used, 0.1)


# --- all together ----------------------------------------------------------------------------------------------------


def _is_words(frame: Frame) -> bool:
    return frame.get("kind") == "stream_delta" or (frame.get("kind") == "text" and frame.get("role") == "assistant")


def _is_end(frame: Frame) -> bool:
    return frame.get("kind") == "complete"


class Rows:
    """The results, by row and side: medians of samples that were taken in turns."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self.bigger: set[str] = set()

    def add(self, name: str, sides: Sequence[Side], rounds: int, row: Row) -> None:
        self.add_all((name,), sides, rounds, lambda side: (row(side),))

    def add_all(
        self, names: Sequence[str], sides: Sequence[Side], rounds: int, row: Callable[[Side], Sequence[float]]
    ) -> None:
        samples: dict[str, list[Sequence[float]]] = {side.name: [] for side in sides}
        for number in range(rounds):
            # The sides alternate in going first: a page cache, for example, that one warms up is warm for the other.
            for side in sides if number % 2 else reversed(sides):
                samples[side.name].append(row(side))
        for number, name in enumerate(names):
            self.found[name] = {
                side: statistics.median(values[number] for values in taken) for side, taken in samples.items()
            }

    def show(self, missing: str) -> Figures:
        rows: dict[str, Sequence[float | str]] = {}
        for name, values in self.found.items():
            ours, theirs = values[Ours.name], values.get(Theirs.name)
            if theirs is None:
                rows[name] = (ours, "-", "-")
                continue
            ratio = ours / theirs if name in self.bigger else theirs / ours
            values["ratio"] = ratio
            rows[name] = (ours, theirs, ratio)
        table(
            "claudecodeui's protocol: the gateway and claudecodeui itself", ("fairlead", "claudecodeui", "ratio"), rows
        )
        if missing:
            print(f"claudecodeui: not measured: {missing}")
        return {**self.found, "missing": missing}


def sides_in(folder: Path, cli: Path, model: str, theirs: bool) -> list[Side]:
    """Both sides, not started yet."""
    made: list[Side] = [Ours(folder / "ours", cli, model)]
    if theirs:
        made.append(Theirs(folder / "theirs", cli, model, peer_program()))
    return made


def start(stack: ExitStack, sides: Sequence[Side]) -> None:
    for side in sides:
        side.start()
        stack.callback(side.stop)


def measure(quick: bool, folder: Path) -> Figures:
    rounds = 2 if quick else 5
    program = peer_program()
    missing = "" if program.exists() else f"it is not at {program}: python -m tools.cloudcli_peer says why"
    rows = Rows()
    rows.bigger = {"shell output, MB/s"}
    with scripted_model() as model:
        with ExitStack() as stack:
            sides = sides_in(folder / "turns", program_path(NEWEST), model, not missing)
            start(stack, sides)
            for side in sides:
                turns(side)
            rows.add("first token of a 10 s answer, ms", sides, 1 if quick else 3, first_token)
            names = ("short turn in a new session, ms", "second turn of a session, ms")
            rows.add_all(names, sides, rounds, turns)
            rows.add("abort until the run's end, ms", sides, rounds, abort)
        with ExitStack() as stack:
            (folder / "talk").mkdir()
            sides = sides_in(folder / "talk", agent_in(folder / "talk"), model, not missing)
            start(stack, sides)
            rows.add("reconnect, 1,000 missed events, ms", sides, rounds, reconnect)
            count = 500 if quick else 5000
            rows.add(f"memory after {count:,} events of 100 kB, MB", sides, 1, lambda side: events_memory(side, count))
        with ExitStack() as stack:
            sides = sides_in(folder / "files", agent_in(folder / "talk"), model, not missing)
            long, short = str(uuid.uuid4()), str(uuid.uuid4())
            for side in sides:
                write_transcript(side, long, 50_000_000)
            paths = {side.name: write_transcript(side, short, 20_000) for side in sides}
            start(stack, sides)
            rows.add(
                "changed transcript until notified, ms",
                sides,
                rounds,
                lambda side: changed(side, paths[side.name], short),
            )
            printed = folder / "long.txt"
            printed.write_text("".join(LINE % number for number in range(12_500 if quick else 125_000)))
            names = ("shell output, MB/s", "shell, server CPU per 10 MB, ms")
            rows.add_all(names, sides, 1 if quick else 3, lambda side: output(side, printed))
            seconds = 2.0 if quick else 5.0
            rows.add(
                f"memory, a viewer not reading for {seconds:.0f} s, MB",
                sides,
                1,
                lambda side: lazy_viewer(side, seconds),
            )
            # Last: reading the rest of the long transcript in the background must not affect the other measurements.
            rows.add("first page of a 50 MB transcript, ms", sides, 1, lambda side: history(side, long))
            rows.add("the same page again, ms", sides, rounds, lambda side: history(side, long))
    return rows.show(missing)


def run(quick: bool) -> Figures:
    """Run in a separate network namespace: the real CLI may not reach the internet."""
    root = Path(__file__).resolve().parents[1]
    subprocess.run([sys.executable, "-m", "tools.cloudcli_peer"], cwd=root, check=False)
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        kept = Path(folder) / "figures.json"
        words = [str(root / "tools" / "innet"), sys.executable, __file__, "--json", str(kept)]
        done = subprocess.run([*words, "--quick"] if quick else words, check=False)
        if done.returncode == 77:
            return {"missing": "no network namespace here, and the real CLI never runs outside of one"}
        done.check_returncode()
        found: Figures = json.loads(kept.read_text())
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller numbers")
    parser.add_argument("--json", type=Path, help="keep the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        found = measure(options.quick, Path(folder))
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
