"""The pure parts of the demo agent: command line, permissions, usage counters, transcripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.demo.flags import FlagError, parse_flags
from fairlead.agents.demo.permissions import Grants, judge
from fairlead.agents.demo.transcript import Transcript, load
from fairlead.agents.demo.usage import TokenUsage, cost, model_usage

# ---- the command line


def test_the_flags_of_a_gateway_are_understood() -> None:
    line = (
        "-p --input-format stream-json --output-format stream-json --verbose --permission-prompt-tool stdio "
        "--include-partial-messages --model sonnet --permission-mode plan --setting-sources user --max-turns 4 "
        "--add-dir /a /b --resume=abc --fork-session --effort=high"
    )
    options = parse_flags(line.split())
    assert options.asks_host
    assert options.partial
    assert options.fork
    assert (options.model, options.mode, options.resume, options.max_turns) == ("sonnet", "plan", "abc", 4)
    assert options.directories == ["/a", "/b"]


@pytest.mark.parametrize(
    "argv",
    [["--nonsense"], ["-x"], ["--model"], ["--permission-mode", "delegate"], ["--max-turns", "many"]],
)
def test_invalid_flags_are_rejected(argv: list[str]) -> None:
    with pytest.raises(FlagError, match="error: "):
        parse_flags(argv)


# ---- permissions


def verdict(tool: str, mode: str = "default", **given: Any) -> str:
    return judge(Grants(mode, "/project"), tool, given).behavior


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


# ---- usage counters


@given(st.lists(st.sampled_from(["a", "b"])), st.lists(st.sampled_from(["a", "b"])))
def test_usage_deltas_add_up_to_the_total(first: list[str], second: list[str]) -> None:
    ledger = TokenUsage()
    news = []
    for part in (first, second):
        for model in part:
            ledger.count(model)
        news.append(ledger.since_last_result())
    assert sum(n for part in news for n in part.values()) == len(first) + len(second)
    assert ledger.total_cost == pytest.approx(cost(len(first) + len(second)))
    assert TokenUsage.from_cost_state(ledger.as_cost_state()).calls == ledger.calls
    assert sum(u["costUSD"] for u in model_usage(ledger.calls).values()) == pytest.approx(ledger.total_cost)


# ---- transcripts


def test_a_line_separator_inside_a_text_does_not_split_the_line(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "s.jsonl", "s", "/project")
    transcript.add({"type": "user", "message": {"role": "user", "content": "a\u2028b\x85c"}})
    assert load(transcript.path).messages == [{"role": "user", "content": "a\u2028b\x85c"}]


def test_the_blocks_of_one_message_are_joined_when_read(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "s.jsonl", "s", "/project")
    transcript.add({"type": "user", "message": {"role": "user", "content": "go"}})
    for text in ("one", "two"):
        transcript.add({"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": text}]}})
    transcript.add({"type": "assistant", "message": {"id": "m2", "content": [{"type": "text", "text": "three"}]}})
    transcript.line({"type": "last-prompt", "lastPrompt": "go"})
    assert [len(m["content"]) for m in load(transcript.path).messages] == [2, 2, 1]
