"""Rules and modes as text: a written rule is read back unchanged, and errors name the wrong text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.versions import Abilities
from fairlead.model.errors import BadMode
from fairlead.model.policy import BadRule, Behavior, PermissionMode, Rule, format_rule, parse_mode, parse_rule
from fairlead.sessions.permissions.policy.modes import ModePolicy

ALL = ["default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk", "auto"]

tool_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:-]{0,20}", fullmatch=True)
contents = st.none() | st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text)


@given(st.sampled_from(Behavior), tool_names, contents, st.sampled_from(["settings", "session"]))
def test_a_rule_written_down_is_read_back(behavior: Behavior, tool: str, content: str | None, source: str) -> None:
    rule = Rule(behavior, tool, content, "settings" if source == "settings" else "session")
    assert parse_rule(format_rule(rule), behavior, rule.source) == rule


@pytest.mark.parametrize(
    ("text", "tool", "content"),
    [
        ("Bash", "Bash", None),
        ("Bash(git status:*)", "Bash", "git status:*"),
        ("  Bash(npm test)  ", "Bash", "npm test"),
        ("Bash(echo (hi))", "Bash", "echo (hi)"),
        ("Read(./src/**)", "Read", "./src/**"),
        ("WebFetch(domain:example.org)", "WebFetch", "domain:example.org"),
        ("mcp__server__tool", "mcp__server__tool", None),
        ("mcp__server", "mcp__server", None),
        ("mcp__my-server__*", "mcp__my-server__*", None),
    ],
)
def test_the_notation(text: str, tool: str, content: str | None) -> None:
    assert parse_rule(text, Behavior.DENY) == Rule(Behavior.DENY, tool, content)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "does not begin with the name of a tool"),
        ("(x)", "does not begin with the name of a tool"),
        ("Ba sh(x)", "does not begin with the name of a tool"),
        ("*", "does not begin with the name of a tool"),
        ("Bash*", "does not begin with the name of a tool"),
        ("Bash(x", "has no closing bracket"),
        ("Bash(x) y", "has no closing bracket"),
        ("Bash()", "has nothing between its brackets"),
        ("Bash(  )", "has nothing between its brackets"),
        ("Bash(a\0b)", "contains a NUL"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_with_the_text_that_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(BadRule, match=problem) as caught:
        parse_rule(text, Behavior.ALLOW)
    assert caught.value.data["rule"] == text
    assert caught.value.code == "bad_rule"


# The modes that each version of Claude Code is known to accept.
VERSIONS = {
    "2.1.37": Abilities((2, 1, 37)).modes,
    "2.1.120": Abilities((2, 1, 120)).modes,
    "2.1.325": Abilities((2, 1, 325)).modes,
}


@pytest.mark.rules("S004-341")
@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_gets_only_the_modes_it_knows(version: str) -> None:
    policy = ModePolicy.for_agent(VERSIONS[version], allow_bypass=True)
    for word in [*ALL, "nonsense", "", "Default", "default ", "bypass"]:
        if word in VERSIONS[version]:
            assert policy.check(word) == word
        else:
            with pytest.raises(BadMode) as caught:
                policy.check(word)
            assert caught.value.data["known"] == [mode for mode in ALL if mode in VERSIONS[version]]
            assert "default, acceptEdits" in caught.value.message


def test_bypass_is_off_unless_the_settings_allow_it() -> None:
    with pytest.raises(BadMode, match="settings must allow it first") as caught:
        ModePolicy().check("bypassPermissions")
    assert "bypassPermissions" not in caught.value.data["known"]
    assert ModePolicy(allow_bypass=True).check("bypassPermissions") is PermissionMode.BYPASS_PERMISSIONS


def test_an_agent_that_does_not_know_bypass_never_gets_it() -> None:
    with pytest.raises(BadMode, match="There is no permission mode"):
        ModePolicy.for_agent(["default"], allow_bypass=True).check("bypassPermissions")


def test_unknown_modes_are_not_accepted_from_an_agent_either() -> None:
    assert ModePolicy.for_agent(["default", "nonsense"]).valid == (PermissionMode.DEFAULT,)


@pytest.mark.parametrize("word", ALL)
def test_every_mode_of_the_protocol_is_accepted(word: str) -> None:
    assert parse_mode(word) == word


def test_an_unknown_mode_is_refused_and_the_valid_ones_are_named() -> None:
    with pytest.raises(BadMode, match="nonsense") as caught:
        parse_mode("nonsense")
    assert caught.value.data["known"] == ALL
