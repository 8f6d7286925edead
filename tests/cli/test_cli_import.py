"""`fairlead import` from the list and from paths, with damaged files; and the results in `ls` and `search`."""

import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from agents.claude_transcripts.transcript_files import conversation, line, lines
from cli.conftest import CliGateway, Fairlead
from fairlead.cli.commands.imports import files_below
from fairlead.clients.native.schemas import Hits


def written(gateway: CliGateway, words: str, data: bytes = b"") -> str:
    """Write a session file into the gateway's home; returns its id."""
    session = str(uuid.uuid4())
    folder = gateway.project / ".claude" / "projects" / "-some-project"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{session}.jsonl").write_bytes(lines(conversation(words, session)) + data)
    return session


def listed(fairlead: Fairlead, session: str, *options: str) -> str:
    """The state in which a session is listed, or an empty string. Retries until the gateway has scanned the folder."""
    for _ in range(200):
        states = [row["state"] for row in fairlead("ls", "--json", *options).lines if row["session"] == session]
        if states:
            return str(states[0])
    return ""


def test_all_listed_sessions_are_imported_once(gateway: CliGateway, fairlead: Fairlead) -> None:
    session = written(gateway, "pangolin question")
    assert listed(fairlead, session, "--all") == "transcript"
    assert session not in fairlead("ls", "--json").out
    first = fairlead("import", "--json")
    (imported,) = [row for row in first.lines if row["session"] == session]
    assert (first.code, imported["events"] > 4, imported["problems"]) == (0, True, [])
    assert session not in fairlead("import", "--json").out
    assert listed(fairlead, session) == "idle"
    assert "answer to pangolin question" in fairlead("logs", session).out


def test_paths_may_be_files_and_folders(gateway: CliGateway, fairlead: Fairlead) -> None:
    kept, other = str(uuid.uuid4()), str(uuid.uuid4())
    saved = gateway.project / "saved"
    saved.mkdir()
    (saved / "copy.jsonl").write_bytes(lines(conversation("kept", kept))[:-1] + line(conversation("x", kept)[0])[:40])
    (saved / f"{other}.jsonl").write_bytes(lines(conversation("other", other)))
    ran = fairlead("import", str(saved))
    assert ran.code == 0
    assert "2 imported" in ran.err
    assert "spliced" in ran.out and "copy.jsonl" in ran.out
    again = fairlead("import", str(saved), "--json")
    assert [row["events"] for row in again.lines] == [0, 0]


def test_failed_files_are_named_and_the_rest_is_imported(gateway: CliGateway, fairlead: Fairlead) -> None:
    good, bad = gateway.project / "good.jsonl", gateway.project / "bad.jsonl"
    session = str(uuid.uuid4())
    good.write_bytes(lines(conversation("good", session)))
    bad.write_bytes(b'{"type":"user","uuid":"u","sessionId":"../../x","message":{"content":"hi"}}\n')
    ran = fairlead("import", str(bad), str(good), "--json")
    assert ran.code == 1
    assert "bad id" in ran.lines[0]["error"]
    assert ran.lines[1]["session"] == session
    assert fairlead("import", str(gateway.project / "none.jsonl")).code == 5
    assert "outside" in fairlead("import", "/etc/passwd").err


def test_consent_is_kept(gateway: CliGateway, fairlead: Fairlead) -> None:
    assert fairlead("import", "--no-archive").code == 0
    assert fairlead("import", "--json").code == 0


def test_folders_are_walked_without_following_links(tmp_path: Path) -> None:
    below = tmp_path / "project" / "session" / "subagents"
    below.mkdir(parents=True)
    (below / "agent-1.jsonl").touch()
    (tmp_path / "project" / "a.jsonl").touch()
    (tmp_path / "project" / "agent-old.jsonl").touch()
    (tmp_path / "project" / "notes.txt").touch()
    (tmp_path / "project" / "loop").symlink_to(tmp_path)
    found = files_below([str(tmp_path), str(tmp_path / "project" / "a.jsonl")])
    assert found == [str(tmp_path / "project" / "a.jsonl")]


def test_unreadable_folder_is_named_and_the_rest_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Root may read every folder, so the error of the system is simulated."""
    (tmp_path / "denied").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "a.jsonl").touch()
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if Path(path).name == "denied":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refusing)
    assert files_below([str(tmp_path)]) == [str(tmp_path / "open" / "a.jsonl")]
    assert "denied: Permission denied" in capsys.readouterr().err


def test_search_finds_tool_results(gateway: CliGateway, fairlead: Fairlead) -> None:
    session = str(uuid.uuid4())
    rows = conversation("look", session)
    rows[2]["message"]["content"][0]["content"] = "heron egret"
    saved = gateway.project / "tools.jsonl"
    saved.write_bytes(lines(rows))
    assert fairlead("import", str(saved)).code == 0
    for _ in range(200):
        hits = fairlead("search", "heron egret", "--json").lines
        if hits:
            break
    assert [(hit["session"], hit["kind"]) for hit in hits] == [(session, "tool.ended")]


def test_search_finds_a_session_that_was_never_opened_and_says_what_is_not_searched_yet(
    gateway: CliGateway, fairlead: Fairlead
) -> None:
    session = written(gateway, "capybara question")
    for _ in range(400):
        found = fairlead("search", "capybara", "--json")
        if found.lines:
            break
    assert {(hit["session"], hit["seq"]) for hit in found.lines} == {(session, 0)}
    shown = fairlead("search", "capybara").out
    assert f"{session[:8]}  " in shown and "#0" not in shown
    assert listed(fairlead, session, "--all") == "transcript"


def test_search_says_how_many_sessions_are_not_indexed(fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(*_: object, **__: object) -> Hits:
        return Hits((), 2)

    monkeypatch.setattr("fairlead.cli.client.Api.get", answer)
    ran = fairlead("search", "heron", "--url", "http://127.0.0.1:9", "--token", "x")
    assert "2 sessions are not indexed yet and not searched" in ran.err
