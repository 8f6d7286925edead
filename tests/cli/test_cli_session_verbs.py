"""Commands that manage sessions, against a real gateway with the demo agent; and how `run` prints and leaves."""

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.cli_processes import Terminal, environment
from cli.conftest import CliGateway, Fairlead
from cli.test_cli_commands import new_session
from fairlead.cli.commands.run import prompt_text
from fairlead.cli.output import columns_shown
from fairlead.client.errors import UsageError
from patience import PATIENCE


def summary(fairlead: Fairlead, session: str) -> dict[str, Any]:
    return next(one for one in fairlead("ls", "--all", "--json").lines if one["session"] == session)


def event(fairlead: Fairlead, session: str, kind: str) -> dict[str, Any]:
    """The first event of a kind, when it is there."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = [line for line in fairlead("logs", session, "--json").lines if line["type"] == kind]
        if found:
            return found[0]
    raise AssertionError(f"there is no {kind}")


def test_rename_archive_and_close(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead)
    assert fairlead("rename", session[:13], "The parser").code == 0
    assert summary(fairlead, session)["title"] == "The parser"
    assert fairlead("rename", session, " ").code == 2
    other = new_session(fairlead)
    assert fairlead("archive", session, other).code == 0
    assert summary(fairlead, session)["archived"] and summary(fairlead, other)["archived"]
    assert fairlead("session", "archive", session, "--undo", "--json").lines[0]["session"] == session
    assert not summary(fairlead, session)["archived"]
    assert fairlead("close", session).code == 0
    assert summary(fairlead, session)["state"] == "closed"
    assert fairlead("run", "SCRIPT:text again", "--session", session).code == 0


def test_interrupt_stops_a_detached_turn(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("run", "SCRIPT:slow 2000", "--detach")
    session = ran.out.strip()
    assert (ran.code, len(session)) == (0, 36)
    assert f"fairlead attach {session}" in ran.err
    event(fairlead, session, "text.delta")
    assert fairlead("interrupt", session).code == 0
    assert event(fairlead, session, "turn.ended")["status"] == "cancelled"
    assert fairlead("run", "x", "--detach", "--wait").code == 2
    reply = fairlead("run", "SCRIPT:text there", "--detach", "--session", session, "--json").lines[0]
    assert reply["session"] == session


def test_fork_and_export(fairlead: Fairlead, gateway: CliGateway, tmp_path: Path) -> None:
    session = new_session(fairlead, "SCRIPT:text pangolin")
    child = fairlead("fork", session, "--title", "Another way").out.strip()
    assert child != session
    assert summary(fairlead, child)["title"] == "Another way"
    lines = [json.loads(line) for line in fairlead("export", child).out.splitlines()]
    assert {line["session"] for line in lines} == {child}
    page = tmp_path / "session.html"
    assert fairlead("export", child, "--format", "html", "--output", str(page)).code == 0
    assert "pangolin" in page.read_text()
    assert fairlead("export", child, "--output", str(page)).code == 2, "a file is never overwritten"
    missing = tmp_path / "missing.jsonl"
    assert fairlead("export", "00000000-0000-4000-8000-000000000000", "--output", str(missing)).code == 5
    assert not missing.exists()


def test_rm_deletes_only_after_a_yes(fairlead: Fairlead, gateway: CliGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    session, other = new_session(fairlead), new_session(fairlead)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert fairlead("rm", session).code == 2, "without a terminal there is nobody to ask"
    assert summary(fairlead, session)
    assert [line["session"] for line in fairlead("rm", session, other, "--yes", "--json").lines] == [session, other]
    assert not {session, other} & {one["session"] for one in fairlead("ls", "--all", "--json").lines}
    again = fairlead("rm", session, "--yes")
    assert (again.code, "could not be deleted" in again.err) == (1, True)


def test_a_dash_is_the_session_that_was_used_last(fairlead: Fairlead, gateway: CliGateway) -> None:
    first, second = new_session(fairlead), new_session(fairlead)
    assert fairlead("rename", "-", "Second").code == 0
    assert summary(fairlead, second)["title"] == "Second"
    fairlead("run", "SCRIPT:text more", "--session", first)
    assert fairlead("rename", "-", "First").code == 0
    assert summary(fairlead, first)["title"] == "First"


def test_without_a_terminal_stdout_has_the_answer_alone(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("run", "SCRIPT:text hello")
    assert ran.out == "Hello from the scripted model. hello\n"
    assert ran.err.startswith("session ")
    quiet = fairlead("run", "--quiet", "SCRIPT:text hello")
    assert (quiet.out, quiet.err) == (ran.out, "")
    tool = fairlead("run", "SCRIPT:bash echo one", "--yes-to", "Bash(echo:*)")
    assert tool.code == 0
    assert "●" not in tool.out and "completed" not in tool.out and "echo" not in tool.out.splitlines()[0]
    failed = fairlead("run", "--quiet", "SCRIPT:error 400")
    assert (failed.code, failed.err.startswith("— failed")) == (1, True)
    assert "— completed" in fairlead("run", "--no-quiet", "SCRIPT:text hello").out


def test_a_prompt_and_stdin_are_sent_together(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from fairlead.cli.main import main; main()", "run", "--json", "SCRIPT:text", "-"],
        env={**environment(gateway.data), "FAIRLEAD_DATA": str(gateway.data)},
        cwd=gateway.project,
        input=b"the diff",
        capture_output=True,
        check=True,
    )
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    (sent,) = [event for event in events if event["type"] == "user.message"]
    assert sent["content"][0]["text"] == "SCRIPT:text\n\nthe diff"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["fix it"], "fix it"),
        (["fix", "the", "bug"], "fix the bug"),
        (["-"], "given"),
        (["review", "-"], "review\n\ngiven"),
        (["review", "-", "in", "short"], "review\n\ngiven\n\nin short"),
        ([" "], ""),
    ],
)
def test_the_text_of_a_prompt(words: list[str], text: str) -> None:
    assert prompt_text(words, lambda: "given") == text


def test_stdin_is_read_once() -> None:
    with pytest.raises(UsageError):
        prompt_text(["-", "-"], lambda: "given")


HEAD = ("ID", "STATE", "USED", "TURNS", "COST", "AGENT", "FOLDER", "TITLE")
WIDTHS = (8, 10, 9, 5, 6, 6, 30, 60)
SPARE = ("AGENT", "COST", "TURNS", "FOLDER", "USED")


@pytest.mark.parametrize(("width", "left"), [(200, len(HEAD)), (60, 4), (40, 3)])
def test_the_title_has_room_on_a_narrow_terminal(width: int, left: int) -> None:
    shown = columns_shown(HEAD, WIDTHS, width, SPARE)
    assert len(shown) == left
    assert HEAD[shown[-1]] == "TITLE"
    assert width - sum(WIDTHS[i] + 2 for i in shown[:-1]) >= 18


def test_ls_on_a_terminal_of_60_columns_shows_titles(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead)
    fairlead("rename", session, "An easily seen title")
    with Terminal(environment(gateway.data, COLUMNS="60"), gateway.project, "ls") as terminal:
        terminal.wait_for("An easily seen title")


def test_ctrl_d_leaves_the_turn_running(fairlead: Fairlead, gateway: CliGateway) -> None:
    with Terminal(environment(gateway.data), gateway.project, "run", "SCRIPT:slow 2000") as terminal:
        terminal.wait_for("tick tick")
        terminal.type("\x04")
        terminal.wait_for("the session continues")
        assert terminal.end() == 130
    assert fairlead("ls", "--json").lines[0]["state"] == "working"
    assert fairlead("interrupt", "-").code == 0


def test_session_ids_are_completed_with_their_titles(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead)
    fairlead("rename", session, "A completed title")

    def complete(*words: str) -> str:
        env = {**environment(gateway.data), "_FAIRLEAD_COMPLETE": "complete_zsh"}
        env["_TYPER_COMPLETE_ARGS"] = " ".join(["fairlead", *words])
        ran = subprocess.run(
            [sys.executable, "-c", "from fairlead.cli.main import main; main()"],
            env=env,
            cwd=gateway.project,
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.stdout

    assert session in (shown := complete("attach", session[:6])) and "A completed title" in shown
    assert session in complete("run", "hi", "--session", session[:6])
    assert complete("attach", "--data", os.devnull, session[:6]).strip() in ("", "_files")
