"""Laws of transcripts: however the writes of a session are split and interleaved, they give the same events; every row
of a subagent finds its owner, in any order of reading the files."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.claude_transcripts.transcript_files import SESSION, SIDE_ROWS, Row, Writer, line, lines, three_subagents
from fairlead.agents.claude.interpreter.interpreter import ClaudeInterpreter
from fairlead.agents.claude.interpreter.subagent_ids import subagent_id
from fairlead.agents.claude.transcripts.reader import SessionReader
from fairlead.model import events as ev
from fairlead.model.agents import Record
from fairlead.model.ids import SessionId

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "transcripts"
RECORDED = sorted(path.name for path in GOLDEN.iterdir())


class EventCollector:
    """Collects the events of a session that is followed."""

    def __init__(self) -> None:
        self.interpreter = ClaudeInterpreter(SessionId(SESSION))
        self.events: list[ev.Event] = []
        self.raws: list[bytes] = []

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.origin == "transcript":
                self.raws.append(record.raw)
            for event in self.interpreter.step(record).events:
                self.events.append(event)
                self.interpreter.assign_seq(event, len(self.events))

    def end(self) -> "EventCollector":
        self.events.extend(self.interpreter.end_quiet_turn().events)
        self.events.extend(self.interpreter.exited("over", "end").events)
        return self

    def conversation(self) -> list[str]:
        """The events, sorted: a bare record is stored at once or with its meaning, depending on the reading order."""
        return sorted(ev.encode(event).decode() for event in self.events if not isinstance(event, ev.RecordStored))

    def threads(self) -> dict[Any, list[str]]:
        found: dict[Any, list[str]] = {}
        for event in self.events:
            if isinstance(event, ev.UserMessage | ev.Text | ev.Thinking | ev.ToolCalled | ev.ToolEnded):
                found.setdefault(event.subagent, []).append(event.id)
        return found


async def follow(reader: SessionReader, session: EventCollector) -> None:
    while (rows := await reader.read()) is not None:
        session.take(rows.records)


def read_whole(main: Path) -> EventCollector:
    session = EventCollector()
    asyncio.run(follow(SessionReader(SessionId(SESSION), main), session))
    return session.end()


def replay(folder: Path, writes: Sequence[tuple[str, bytes]]) -> EventCollector:
    """Write the pieces one after the other; after each one read the files as far as they go."""

    async def run() -> EventCollector:
        session = EventCollector()
        main = folder / f"{SESSION}.jsonl"
        main.touch()
        reader = SessionReader(SessionId(SESSION), main)
        for name, piece in writes:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(piece)
            await follow(reader, session)
        return session.end()

    return asyncio.run(run())


def recorded(case: str) -> dict[str, bytes]:
    """The files of a recorded session, by their names below its project."""
    (main,) = (GOLDEN / case).glob("*.jsonl")
    files = {f"{SESSION}.jsonl": main.read_bytes()}
    for path in sorted((GOLDEN / case).rglob("agent-*")):
        files[f"{SESSION}/{path.relative_to(main.with_suffix(''))}"] = path.read_bytes()
    return files


def pieces(files: dict[str, bytes], rng: random.Random) -> list[tuple[str, bytes]]:
    """Each file cut anywhere; the pieces of all files in any order that keeps the order within each file."""
    queues = []
    for name, data in files.items():
        cuts = sorted(rng.sample(range(1, len(data)), min(len(data) - 1, rng.randrange(12))))
        if name.endswith(".meta.json"):
            cuts = []  # the file is replaced as a whole
        queues.append([(name, data[a:b]) for a, b in itertools.pairwise([0, *cuts, len(data)])])
    writes = []
    while queues:
        queue = rng.choice(queues)
        writes.append(queue.pop(0))
        queues = [left for left in queues if left]
    return writes


@pytest.mark.parametrize("case", RECORDED)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_every_split_and_interleaving_of_a_recorded_session_gives_the_same_events(
    case: str, tmp_path_factory: pytest.TempPathFactory, rng: random.Random
) -> None:
    files = recorded(case)
    whole = tmp_path_factory.mktemp("whole")
    for name, data in files.items():
        (whole / name).parent.mkdir(parents=True, exist_ok=True)
        (whole / name).write_bytes(data)
    expected = read_whole(whole / f"{SESSION}.jsonl")
    session = replay(tmp_path_factory.mktemp("split"), pieces(files, rng))
    assert session.conversation() == expected.conversation()
    assert session.threads() == expected.threads()
    assert sorted(session.raws) == sorted(expected.raws)


# --- three subagents at once -----------------------------------------------------------------------------------


def owners(session: EventCollector) -> dict[str | None, int]:
    """The number of rows of each subagent, counted by the records that its events came from."""
    found: dict[str | None, set[str]] = {}
    for event in session.events:
        if event.subagent is not None and not isinstance(event, ev.SubagentStarted | ev.SubagentEnded):
            found.setdefault(event.subagent, set()).add(event.id.split("/")[0])
    return {owner: len(rows) for owner, rows in found.items()}


ALL_OWNED = {subagent_id(call): count for call, count in zip(("toolu_a", "toolu_b", "toolu_c"), SIDE_ROWS, strict=True)}


def mixed(groups: Sequence[Sequence[Row]], rng: random.Random) -> list[Row]:
    queues = [list(group) for group in groups]
    rows = []
    while queues:
        queue = rng.choice(queues)
        rows.append(queue.pop(0))
        queues = [left for left in queues if left]
    return rows


@pytest.mark.rules("S001-053", "S001-054", "S001-055", "S001-088", "S001-096", "S001-100")
@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_74_of_74_rows_in_one_file_find_their_owner_in_any_order(rng: random.Random) -> None:
    """In the format of older CLIs: no ids, only parents and prompts. The rows may even come before their calls."""
    before, side, after = three_subagents(agents=False)
    main = [*before, *after]
    session = EventCollector()
    session.take([Record(line(row)[:-1], "transcript") for row in mixed([main, *side], rng)])
    assert sum(SIDE_ROWS) == 74
    assert owners(session.end()) == ALL_OWNED
    assert not [event for event in session.events if isinstance(event, ev.Notice)]


@pytest.mark.rules("S001-053", "S001-096")
@given(st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_rows_that_come_before_the_row_they_follow_find_their_owner(rng: random.Random) -> None:
    before, side, after = three_subagents(agents=False)
    shuffled = list(itertools.chain(*side))
    rng.shuffle(shuffled)
    session = EventCollector()
    session.take([Record(line(row)[:-1], "transcript") for row in mixed([[*before, *after], shuffled], rng)])
    assert owners(session.end()) == ALL_OWNED


@pytest.mark.rules("S001-088")
@pytest.mark.parametrize("layout", ["meta", "below", "beside"])
@given(st.randoms(use_true_random=False))
@settings(max_examples=12, deadline=None)
def test_74_of_74_rows_in_separate_files_find_their_owner(
    layout: str, tmp_path_factory: pytest.TempPathFactory, rng: random.Random
) -> None:
    before, side, after = three_subagents(agents=True)
    files = {f"{SESSION}.jsonl": lines([*before, *after])}
    for name, rows in zip("abc", side, strict=True):
        if layout == "meta":
            files[f"{SESSION}/subagents/agent-{name}.meta.json"] = b'{"toolUseId":"toolu_%s"}' % name.encode()
        folder = "" if layout == "beside" else f"{SESSION}/subagents/"
        files[f"{folder}agent-{name}.jsonl"] = lines(rows)
    session = replay(tmp_path_factory.mktemp("three"), pieces(files, rng))
    assert owners(session) == ALL_OWNED


@pytest.mark.rules("S001-057")
def test_two_calls_with_one_prompt_get_one_thread_each() -> None:
    write = Writer()
    rows = [
        write.prompt("go"),
        write.call("toolu_a", "Task", prompt="same"),
        write.call("toolu_b", "Task", prompt="same"),
    ]
    first = [write.prompt("same", "toolu_a"), write.text("one", "toolu_a")]
    second = [write.prompt([{"type": "text", "text": " same "}], "toolu_b"), write.text("two", "toolu_b")]
    session = EventCollector()
    session.take([Record(line(row)[:-1], "transcript") for row in [*rows, first[0], second[0], second[1], first[1]]])
    texts = {event.text: event.subagent for event in session.events if isinstance(event, ev.Text)}
    assert texts == {"one": subagent_id("toolu_a"), "two": subagent_id("toolu_b")}


def test_a_chain_through_rows_without_text_holds() -> None:
    write = Writer()
    rows = [write.prompt("go"), write.call("toolu_a", "Task", prompt="job"), write.prompt("job", "toolu_a")]
    rows.append(write.row("attachment", "toolu_a", attachment={"type": "x"}))
    rows.append(write.row("brand-new-type", "toolu_a"))
    rows.append(write.text("deep", "toolu_a"))
    for order in (rows, [*rows[:2], *rows[5:], *rows[2:5]]):
        session = EventCollector()
        session.take([Record(line(row)[:-1], "transcript") for row in order])
        (text,) = [event for event in session.events if isinstance(event, ev.Text)]
        assert text.subagent == subagent_id("toolu_a")


@pytest.mark.rules("S001-054")
def test_a_long_waiting_chain_is_emitted_without_overflowing_the_stack() -> None:
    write = Writer()
    opening = [write.prompt("go"), write.call("toolu_a", "Task", prompt="job")]
    root = write.prompt("job", "toolu_a")
    chain = [write.text(str(number), "toolu_a") for number in range(250)]
    session = EventCollector()
    session.take([Record(line(row)[:-1], "transcript") for row in [*opening, *reversed(chain), root]])
    texts = [event for event in session.events if isinstance(event, ev.Text)]
    assert [event.text for event in texts] == [str(number) for number in range(250)]
    assert {event.subagent for event in texts} == {subagent_id("toolu_a")}
