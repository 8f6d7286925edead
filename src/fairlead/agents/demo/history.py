"""The files of the demo agent: the events of each session, one per line, without deltas."""

from collections.abc import Iterator
from pathlib import Path

from fairlead.agents.demo.wire import decode, number_of
from fairlead.model import events as ev


def file_of(home: str, session: str) -> Path:
    """The file of a session. The agent chooses the name, but not the folder."""
    return Path(home) / "sessions" / f"{Path(session).name}.jsonl"


def events_in(path: Path) -> Iterator[tuple[bytes, ev.Event]]:
    """The events of a file with their lines. A torn line, as a crash leaves it, is skipped."""
    for line in path.read_bytes().split(b"\n"):
        event = decode(line)
        if isinstance(event, ev.EventBase):
            yield line, event


def last_lines(path: Path) -> list[bytes]:
    """The lines of the last process that wrote to a file; none if there is no file."""
    found = list(events_in(path)) if path.exists() else []
    last = number_of(found[-1][1].id)[0] if found else ""
    return [line for line, event in found if number_of(event.id)[0] == last]


def load(path: Path, at: str) -> tuple[list[bytes], int]:
    """The lines of a session up to the event `at`, or all, and how many messages the model sees in them.

    Raises LookupError."""
    lines: list[bytes] = []
    seen = 0
    try:
        for line, event in events_in(path):
            lines.append(line)
            if isinstance(event, ev.Compaction) and event.phase == "boundary":
                seen = 0
            seen += is_seen(event)
            if at and event.id.split("/", 1)[0] == at:
                return lines, seen
    except OSError:
        raise LookupError(f"There is no conversation {path.stem}.") from None
    if at:
        raise LookupError(f"The conversation {path.stem} has no event {at}.")
    return lines, seen


def is_seen(event: ev.Event) -> bool:
    """Whether the event is a message that the model gets: a prompt, a result."""
    return isinstance(event, ev.UserMessage | ev.ToolEnded) and event.subagent is None
