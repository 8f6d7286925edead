"""Recovers a turn of a CLI whose gateway died: reads its transcript from a prompt on, until the process has exited and
the file is read to its end.

Measured: the CLI finishes its tool, calls the model once more, writes the answer to its transcript and exits within
seconds. Its rows are delivered as records of origin `transcript`; damaged rows are left out.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from fairlead.agents.claude.transcripts.identity import RecordIdentity, identify
from fairlead.agents.claude.transcripts.paths import existing_transcript
from fairlead.agents.claude.wire.decode import decode, decode_object
from fairlead.agents.claude.wire.records import InvalidRecord
from fairlead.agents.links.framing import LineSplitter, Oversize
from fairlead.model.agents import AgentSink, Exit, ProcessInfo, Record
from fairlead.model.ids import MessageId
from fairlead.system.clock import Clock, ends_within
from fairlead.system.process import StopTimeouts, stop_orphan, wait_orphan
from fairlead.system.proctable import Process
from fairlead.system.tail import FileTail

BLOCK = 256 * 1024

Stop = Callable[[], Awaitable[None]]

QUIET_SECONDS = 60.0
"""A CLI that dials in tries to reconnect for ten minutes after its gateway has died, whether it is working or not. If
it has written nothing for this long, it is assumed to be waiting for us and is stopped."""


async def follow(
    child: ProcessInfo,
    config: Path,
    sink: AgentSink,
    after: MessageId | None,
    clock: Clock,
    patience: StopTimeouts | None = None,
) -> None:
    """Deliver the rows after the prompt `after` until the process has exited; then call `sink.exited`."""
    path = existing_transcript(config, Path(child.transcript))
    leaving = asyncio.create_task(wait_orphan(Process(child.pid, child.started), clock))
    stop = (lambda: end(child, clock, patience or StopTimeouts())) if child.dials_in else None
    try:
        # A CLI in a terminal has only its transcript: its first prompt may be recorded nowhere else.
        whole = after is None and child.in_terminal
        offset = 0 if whole else await asyncio.to_thread(place_after, path, after)
        with FileTail(path, clock=clock, offset=offset) as tail:
            await _read(tail, leaving, sink, clock, stop)
    finally:
        leaving.cancel()
        await asyncio.wait({leaving})
    await sink.exited(Exit())


async def _read(
    tail: FileTail, leaving: "asyncio.Task[None]", sink: AgentSink, clock: Clock, stop: Stop | None
) -> None:
    """Deliver the rows until the process has exited. `stop` is called when it has written nothing for
    `QUIET_SECONDS`."""
    splitter, generation = LineSplitter(), tail.generation
    quiet_at = clock.monotonic() + QUIET_SECONDS
    while True:
        was_gone = leaving.done()
        data = tail.read()
        if tail.generation != generation:
            splitter, generation = LineSplitter(), tail.generation
        if data:
            quiet_at = clock.monotonic() + QUIET_SECONDS
            await _give(splitter.feed(data), sink)
        elif was_gone:
            await _give(splitter.end(), sink)
            return
        else:
            changed = asyncio.create_task(tail.changed())
            either = asyncio.wait({leaving, changed}, return_when=asyncio.FIRST_COMPLETED)
            try:
                if stop is None:
                    await either
                elif not await ends_within(clock, max(0.0, quiet_at - clock.monotonic()), either):
                    await stop()
                    quiet_at = clock.monotonic() + QUIET_SECONDS
            finally:
                changed.cancel()
                await asyncio.wait({changed})


async def _give(lines: list[bytes | Oversize], sink: AgentSink) -> None:
    batch = whole_rows(lines)
    if batch:
        await sink.records(batch)


def whole_rows(lines: list[bytes | Oversize]) -> list[Record]:
    """The rows of these lines, without torn lines and runs of NULs, as a crash leaves them."""
    rows = [line.strip(b"\0 \t\r") for line in lines if isinstance(line, bytes)]
    return [Record(row, "transcript") for row in rows if row and not isinstance(decode(row), InvalidRecord)]


def rows_after(path: Path, prompt: MessageId | None) -> Iterator[list[Record]]:
    """The rows after a prompt up to the file's present end, in batches."""
    splitter, offset = LineSplitter(), place_after(path, prompt)
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(offset)
        while data := file.read(BLOCK):
            if batch := whole_rows(splitter.feed(data)):
                yield batch


# --- where to begin -------------------------------------------------------------------------------------


def place_after(path: Path, prompt: MessageId | None) -> int:
    """The offset just after the row of `prompt`; the file's end if that row is missing, or if there was no prompt.

    A message sent into a running turn is written only when the agent takes it up, after rows that no client has seen:
    then the offset is just after the prompt before it."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if prompt is None:
            return size
        steered = False
        name = prompt.encode()
        for end, line in lines_backwards(file.fileno(), size):
            if not steered and name not in line:
                continue
            row = identify(line.strip(b"\0 \t\r"))
            if row.uuid == prompt or (steered and _is_prompt(row)):
                return end
            steered = steered or decode_object(row.attachment).get("source_uuid") == prompt
        return 0 if steered else size
    return 0


def place_of(path: Path, prompt: MessageId) -> int | None:
    """The offset at which the row of `prompt` begins; None while it is not in the file."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        name = prompt.encode()
        for end, line in lines_backwards(file.fileno(), file.seek(0, os.SEEK_END)):
            if name in line and identify(line.strip(b"\0 \t\r")).uuid == prompt:
                return max(0, end - len(line) - 1)
    return None


def _is_prompt(row: RecordIdentity) -> bool:
    return row.type == "user" and not (row.isSidechain or row.isMeta or row.has_result)


def lines_backwards(fd: int, size: int, block: int = BLOCK, first: int = 0) -> Iterator[tuple[int, bytes]]:
    """The lines of a file from its last to its first, each with the offset just after its newline. Nothing is read
    before the offset `first`: a line that begins before it is left out."""
    pieces: list[bytes] = []  # parts of the line whose start is not read yet, last part first
    end = position = size
    while position > first:
        start = max(first, position - block)
        data = os.pread(fd, position - start, start)
        upto = len(data)
        while (newline := data.rfind(b"\n", 0, upto)) >= 0:
            yield end, b"".join([data[newline + 1 : upto], *reversed(pieces)])
            pieces = []
            end = start + newline + 1
            upto = newline
        pieces.append(data[:upto])
        position = start
    if first == 0:
        yield end, b"".join(reversed(pieces))


async def end(child: ProcessInfo, clock: Clock, patience: StopTimeouts) -> None:
    """Stop a process of an earlier gateway and its group, if the pid still belongs to that process."""
    await stop_orphan(Process(child.pid, child.started), child.group, clock, patience)
