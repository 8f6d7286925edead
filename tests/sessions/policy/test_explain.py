"""The information for a person before the answer: the parts of a line, a file before and after, a rule's coverage."""

from typing import Any

import pytest

from fairlead.agents.claude.tools import TOOLS
from fairlead.model.policy import Behavior, parse_rule
from fairlead.model.queries import CommandPart
from fairlead.sessions.permissions.policy.call import ToolCall
from fairlead.sessions.permissions.policy.explain import covers, file_change, lay_out, rule_scope, suggested
from sessions.policy.fake_folders import judge, judge_line, place

FILE = "/srv/project/a.py"


def line(command: str) -> ToolCall:
    return ToolCall("Bash", {"command": command})


def test_a_line_is_split_into_its_commands_including_hidden_ones() -> None:
    layout = lay_out(line("cd src && sh -c 'rm -rf x' > out.txt | tee log"), place())
    assert layout.commands == (
        CommandPart(text="cd src"),
        CommandPart(text="sh -c 'rm -rf x'"),
        CommandPart(text="rm -rf x", hidden=True),
        CommandPart(text="tee log"),
    )
    assert layout.writes == ("out.txt",)


def test_the_report_names_everything_unknown_before_the_run() -> None:
    assert lay_out(line("$RUN now"), place()).doubts
    assert lay_out(line("echo 'open"), place()).doubts
    assert lay_out(ToolCall("Bash", {"command": 7}), place()).doubts == ("it has no command",)
    assert lay_out(ToolCall("Bash", "no object"), place()).doubts == ("its input is not an object",)
    assert not lay_out(line("git status"), place()).doubts


def test_a_file_that_would_change_is_named_and_read_only_inside_the_folders() -> None:
    assert lay_out(ToolCall("Edit", {"file_path": FILE}), place()).edited == (FILE, FILE)
    assert lay_out(ToolCall("Write", {"file_path": "/etc/passwd"}), place()).edited == ("/etc/passwd", None)
    # A link inside the folders that leads outside counts as outside.
    link = lay_out(ToolCall("Write", {"file_path": FILE}), place(resolve=lambda path: path.replace(FILE, "/etc/x")))
    assert link.edited == (FILE, None)
    assert lay_out(ToolCall("Read", {"file_path": FILE}), place()).edited is None
    assert lay_out(ToolCall("WebFetch", {"url": "https://Example.org/x"}), place()).host == "example.org"


@pytest.mark.parametrize(
    ("tool", "given", "text", "before", "after", "whole", "new"),
    [
        ("Write", {"content": "b\n"}, "a\n", "a\n", "b\n", True, False),
        ("Write", {"content": "b\n"}, "", "", "b\n", True, True),
        ("Write", {"content": "b\n"}, None, "", "b\n", False, False),
        ("Edit", {"old_string": "a", "new_string": "b"}, "a a", "a a", "b a", True, False),
        ("Edit", {"old_string": "a", "new_string": "b", "replace_all": True}, "a a", "a a", "b b", True, False),
        ("Edit", {"old_string": "z", "new_string": "b"}, "a a", "z", "b", False, False),
        ("Edit", {"old_string": "a", "new_string": "b"}, None, "a", "b", False, False),
        ("Edit", {"old_string": "", "new_string": "b"}, "", "", "b", True, False),
        ("Edit", {"old_string": "", "new_string": "b"}, "a", "", "b", False, False),
        (
            "MultiEdit",
            {"edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "c"}]},
            "a",
            "a",
            "c",
            True,
            False,
        ),
        ("MultiEdit", {"edits": "none"}, None, "", "", False, False),
        ("NotebookEdit", {"new_source": "x = 1"}, '{"cells":[]}', "", "x = 1", False, False),
    ],
)
def test_a_file_is_shown_before_and_after_the_change(
    tool: str, given: Any, text: str | None, before: str, after: str, whole: bool, new: bool
) -> None:
    shown = file_change(TOOLS.find(tool), given, FILE, text, outside=False)
    assert (shown.before, shown.after, shown.whole, shown.new) == (before, after, whole, new)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("Bash(git status:*)", "begins with the words “git status”"),
        ("Bash(make test)", "“make test”, exactly as it is"),
        ("Bash(npm test*)", "* is the rest of a word"),
        ("Bash(make a > b)", "exactly as it is"),
        ("Bash", "Every shell command"),
        ("Edit(src/**)", "any editing tool, everything below /srv/project/src"),
        ("Read(/srv/project/*.py)", "any reading tool, every file that matches /srv/project/*.py"),
        ("Write(/srv/project/a)", "Changing by Write /srv/project/a"),
        ("Grep(~/x/**)", "Reading by Grep everything below /home/me/x"),
        ("Read(~else/x)", "nothing"),
        ("Edit", "every file anywhere"),
        ("WebFetch(domain:example.org)", "any page of example.org"),
        ("WebFetch(domain:*.example.org)", "names below example.org"),
        ("WebFetch", "Every call of WebFetch"),
        ("Task(reviewer)", "for reviewer"),
        ("mcp__files", "Every tool of the MCP server files"),
        ("mcp__files__*", "Every tool of the MCP server files"),
        ("mcp__files__read", "Every call of read, a tool of the MCP server files"),
        ("WebSearch(cats)", "Nothing"),
    ],
)
def test_a_rule_describes_its_coverage(rule: str, words: str) -> None:
    assert words in covers(parse_rule(rule, Behavior.ALLOW), place())


def test_suggested_rules_are_enough_for_the_call() -> None:
    rules = suggested(line("git status && make test"), place())
    assert [(rule.rule, rule.enough) for rule in rules] == [("Bash(git status:*)", True), ("Bash(make test)", True)]
    assert judge_line("git status && make test", allow=[rule.rule for rule in rules]).behavior is Behavior.ALLOW
    assert suggested(ToolCall("AskUserQuestion", {}), place()) == ()


def test_a_rule_that_a_person_writes_is_checked_before_it_is_saved() -> None:
    asked = line("make test")
    good = rule_scope("Bash(make:*)", asked, place(), admin=False)
    assert (good.rule, good.enough, good.problem) == ("Bash(make:*)", True, "")
    other = rule_scope("Bash(ls:*)", asked, place(), admin=False)
    assert not other.enough and other.covers and not other.problem
    for text in ("", "Bash(", "Bash", "Read(/etc/**)", "Edit"):
        refused = rule_scope(text, asked, place(), admin=False)
        assert refused.problem and not refused.enough and not refused.covers
    everything = rule_scope("Bash", asked, place(), admin=True)
    assert everything.enough and "Every shell command" in everything.covers
    assert rule_scope("Bash(make:*)", ToolCall("Bash", {}), place(), admin=False).enough is False


@pytest.mark.parametrize("text", ["Bash(make:*)", "Bash(ls:*)", "Bash(make test)", "Read(**)", "Edit(x/**)", "mcp__a"])
@pytest.mark.parametrize("call", [("Bash", {"command": "make test"}), ("Edit", {"file_path": "/srv/project/x/y"})])
def test_enough_agrees_with_the_policys_later_verdict(text: str, call: tuple[str, Any]) -> None:
    shown = rule_scope(text, ToolCall(*call), place(), admin=False)
    before, after = judge(*call), judge(*call, allow=[text])
    assert shown.enough == (after.behavior is Behavior.ALLOW and after.by == "rule"), (before, after)
