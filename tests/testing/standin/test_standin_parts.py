"""The pure parts of the stand-in: command line, permissions, transcripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_testing.standin_cli.flags import parse_flags
from fairlead_testing.standin_cli.permissions import Grants
from fairlead_testing.standin_cli.transcript import Transcript, load, messages_of

# ---- the command line


def test_the_flags_of_a_gateway_are_understood() -> None:
    line = (
        "-p --input-format stream-json --output-format stream-json --verbose --permission-prompt-tool stdio "
        "--include-partial-messages --model sonnet --permission-mode plan --setting-sources user --max-turns 4 "
        "--add-dir /a /b --resume=abc --fork-session --effort=high"
    )
    options = parse_flags(line.split())
    assert options.include_partial_messages
    assert options.fork_session
    assert (options.model, options.permission_mode, options.resume) == ("sonnet", "plan", "abc")
    assert options.max_turns == 4
    assert options.add_dir == ["/a", "/b"]


@pytest.mark.parametrize(
    "argv",
    [["--nonsense"], ["-x"], ["--model"], ["--permission-mode", "delegate"], ["--max-turns", "many"]],
)
def test_invalid_flags_are_rejected(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_flags(argv)
    assert "error: " in capsys.readouterr().err


# ---- permissions


def verdict(tool: str, mode: str = "default", **given: Any) -> str:
    return Grants(mode, "/project").judge(tool, given)


@pytest.mark.parametrize("command", ["echo hi", "ls -l", "pwd"])
def test_read_only_commands_are_allowed(command: str) -> None:
    assert verdict("Bash", command=command) == "allow"


@pytest.mark.parametrize(
    "command",
    ["touch x", "echo hi; touch x", "echo $(touch x)", "echo hi > x", "echo `id`", "ls | sh", "echo hi\ntouch x", ""],
)
def test_all_other_commands_need_permission(command: str) -> None:
    assert verdict("Bash", command=command) == "ask"


def test_modes() -> None:
    assert verdict("Write", file_path="a") == "ask"
    assert verdict("Write", "acceptEdits", file_path="a") == "allow"
    assert verdict("Write", "acceptEdits", file_path="../a") == "ask"
    assert verdict("Bash", "acceptEdits", command="touch a") == "allow"
    assert verdict("Bash", "bypassPermissions", command="rm -rf x") == "allow"
    assert verdict("Write", "dontAsk", file_path="a") == "deny"
    assert verdict("Read", file_path="a") == "allow"
    assert verdict("Read", file_path="/etc/passwd") == "ask"
    assert verdict("mcp__s__t") == "ask"


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", "dontAsk", "plan", "auto"])
def test_questions_and_plans_always_ask_the_host(mode: str) -> None:
    assert verdict("AskUserQuestion", mode) == "ask"
    assert verdict("ExitPlanMode", mode) == "ask"


def test_added_directories_belong_to_the_session() -> None:
    grants = Grants("default", "/project", ["/other"])
    assert grants.inside("/other/file")
    assert not grants.inside("/otherwise")


# ---- transcripts


def test_a_line_separator_inside_a_text_does_not_split_the_line(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "s.jsonl", "s", "/project")
    transcript.add({"type": "user", "message": {"role": "user", "content": "a\u2028b\x85c"}})
    assert messages_of(load(transcript.path)) == [{"role": "user", "content": "a\u2028b\x85c"}]


def test_the_blocks_of_one_message_are_joined_when_read(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "s.jsonl", "s", "/project")
    transcript.add({"type": "user", "message": {"role": "user", "content": "go"}})
    for text in ("one", "two"):
        transcript.add({"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": text}]}})
    transcript.add({"type": "assistant", "message": {"id": "m2", "content": [{"type": "text", "text": "three"}]}})
    assert [len(m["content"]) for m in messages_of(load(transcript.path))] == [2, 2, 1]
