"""A CLI that a person started announces its session: it is listed at once, but only from the CLI's own homes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.claude_transcripts.transcript_files import OTHER, SESSION, Writer, conversation, lines
from fairlead.clients.native import transcripts as native
from fairlead.model.commands import Delete
from fairlead.model.errors import BadId, BadRequest, OutsideRoots
from fairlead.model.store import TRANSCRIPT
from fairlead.model.web.requests import Head
from fairlead.model.web.routes import Request
from fairlead.sessions.api.transcripts import Announced, AnnounceSession
from sessions.harness import ANN
from sessions.transcript_harness import FOUND, TranscriptHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TranscriptHarness]:
    """The files are not watched: a session becomes visible only by its announcement."""
    made = await TranscriptHarness(tmp_path, watch=False).start()
    yield made
    await made.stop()


async def announce(harness: TranscriptHarness, path: Any, session: str = SESSION) -> Announced:
    announced = await harness.importer.handlers()[AnnounceSession](ANN, AnnounceSession(session, str(path)))
    assert isinstance(announced, Announced)
    return announced


async def test_a_session_that_is_announced_is_listed_at_once(harness: TranscriptHarness) -> None:
    path = harness.home.write(conversation("fix the test"))
    assert await harness.listed() == ()
    assert await announce(harness, path) == Announced(session=FOUND, listed=True)
    (summary,) = await harness.listed()
    assert (summary.session, summary.state, summary.title) == (FOUND, TRANSCRIPT, "fix the test")


async def test_an_empty_session_is_listed_once_it_has_a_message(harness: TranscriptHarness) -> None:
    """The CLI starts its hook before it writes its file."""
    path = harness.home.folder / "projects" / "-srv-project" / f"{SESSION}.jsonl"
    assert await announce(harness, path) == Announced(session=FOUND, listed=False)
    assert await harness.listed() == ()
    harness.home.write(conversation("now"))
    assert (await announce(harness, path)).listed


async def test_an_open_session_that_continues_elsewhere_is_followed(harness: TranscriptHarness) -> None:
    write = Writer()
    path = harness.home.write([write.prompt("one"), write.text("first")])
    await announce(harness, path)
    assert await harness.messages() == ["> one", "first"]
    harness.home.write(path.read_bytes() + lines([write.prompt("two"), write.text("second")]))
    await announce(harness, path)
    assert await harness.messages() == ["> one", "first", "> two", "second"]


async def test_a_deleted_session_stays_deleted(harness: TranscriptHarness) -> None:
    path = harness.home.write(conversation("one"))
    await announce(harness, path)
    await harness.view()
    await harness.gateway.command(ANN, Delete(session=FOUND))
    assert await announce(harness, path) == Announced(session=FOUND, listed=False)
    assert await harness.listed() == ()


async def test_a_file_outside_the_homes_is_refused(harness: TranscriptHarness, tmp_path: Path) -> None:
    """Roots are for projects: a file in a root is not a session."""
    link = harness.home.folder / "projects" / "-srv-project" / f"{SESSION}.jsonl"
    link.parent.mkdir(parents=True, exist_ok=True)
    elsewhere = tmp_path / "work" / f"{SESSION}.jsonl"
    elsewhere.parent.mkdir(exist_ok=True)
    elsewhere.write_bytes(b"{}")
    link.symlink_to(elsewhere)
    for path in (elsewhere, link, link.parent.parent.parent.parent / f"{SESSION}.jsonl", f"/etc/{SESSION}.jsonl"):
        with pytest.raises(OutsideRoots):
            await announce(harness, path)
    for path in (f"projects/{SESSION}.jsonl", "", f"/a\0/{SESSION}.jsonl"):
        with pytest.raises(BadRequest):
            await announce(harness, path)
    assert await harness.listed() == ()


async def test_the_file_must_belong_to_the_session(harness: TranscriptHarness) -> None:
    path = harness.home.write(conversation("one"))
    with pytest.raises(BadRequest, match="not that of the session"):
        await announce(harness, path, OTHER)
    with pytest.raises(BadId):
        await announce(harness, path, "..")


def test_the_hook_input_is_accepted_unchanged() -> None:
    """Newer versions send more fields than older ones."""
    (route,) = [route for route in native.routes if route.name == "hooks.session-start"]
    assert (route.method, route.path, route.access) == ("POST", "/v1/hooks/session-start", "chat")
    given = {"session_id": SESSION, "transcript_path": "/p", "cwd": "/w", "source": "startup", "of_tomorrow": [1]}
    head = Head(method=route.method, path=route.path)
    steps = route.handle(Request(head=head, who=ANN, fresh="", body=msgspec.json.encode(given)))
    assert next(steps) == AnnounceSession(SESSION, "/p")
