"""The rules that a session remembers from the wire, and the rules that an "always allow" suggests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import BadMode, OutsideRoots
from fairlead.model.policy import BadRule, Behavior, PermissionMode, Rule, format_rule, parse_rule
from fairlead.sessions.permissions.policy.call import ToolCall
from fairlead.sessions.permissions.policy.decide import decide
from fairlead.sessions.permissions.policy.modes import ModePolicy
from fairlead.sessions.permissions.policy.remember import (
    BadUpdate,
    RememberedRules,
    check_or_narrow,
    check_rule,
    remember,
)
from fairlead.sessions.permissions.policy.suggest import suggest
from fairlead.sessions.permissions.policy.tools import EDIT_TOOLS
from sessions.policy.attacks import ALLOWED, ATTACKS, HONEST
from sessions.policy.fake_folders import DATA, place

SESSION = "session"


def rule(text: str, behavior: Behavior = Behavior.ALLOW) -> Rule:
    return parse_rule(text, behavior)


def wire(
    *rules: tuple[str, str | None], kind: str = "addRules", behavior: str = "allow", **more: Any
) -> dict[str, Any]:
    given_rules = [{"toolName": t} if c is None else {"toolName": t, "ruleContent": c} for t, c in rules]
    return {"type": kind, "rules": given_rules, "behavior": behavior, "destination": "userSettings", **more}


def after(*updates: Any, memory: RememberedRules | None = None, admin: bool = False, bypass: bool = False) -> Any:
    return remember(list(updates), memory or RememberedRules(), place(), ModePolicy(allow_bypass=bypass), admin=admin)


def test_rules_are_added_to_the_session_for_any_destination() -> None:
    outcome = after(wire(("Bash", "git:*"), ("Read", "./src/**")), wire(("Bash", "git:*")))
    assert outcome.memory.rules == (rule("Bash(git:*)"), rule("Read(./src/**)"))
    assert {each.source for each in outcome.memory.rules} == {"session"}
    assert outcome.refused == ()


def test_rules_are_replaced_and_removed_by_behavior() -> None:
    memory = RememberedRules(rules=(rule("Bash(a)"), rule("Bash(b)"), rule("Bash(a)", Behavior.DENY)))
    replaced = after(wire(("Bash", "c"), kind="replaceRules"), memory=memory).memory
    assert replaced.rules == (rule("Bash(a)", Behavior.DENY), rule("Bash(c)"))
    removed = after(wire(("Bash", "a"), kind="removeRules"), memory=memory).memory
    assert removed.rules == (rule("Bash(b)"), rule("Bash(a)", Behavior.DENY))


def test_the_clis_double_slash_becomes_a_single_slash() -> None:
    memory = after(wire(("Read", "//srv/project/src/**"))).memory
    assert memory.rules == (rule("Read(/srv/project/src/**)"),)
    assert after(wire(("Read", "//srv/project/src/**"), kind="removeRules"), memory=memory).memory.rules == ()


@pytest.mark.parametrize(
    ("tool", "content"),
    [
        ("Bash", None),
        ("Bash", "*"),
        ("Write", None),
        ("Edit", None),
        ("Read", None),
        ("Read", "//**"),
        ("Write", "/etc/**"),
        ("Edit", "../**"),
        ("Edit", "~other/**"),
    ],
)
def test_an_allow_that_opens_everything_needs_an_admin(tool: str, content: str | None) -> None:
    outcome = after(wire((tool, content)))
    assert outcome.memory.rules == ()
    assert len(outcome.refused) == 1
    assert isinstance(outcome.refused[0], BadRule | OutsideRoots)
    assert len(after(wire((tool, content)), admin=True).memory.rules) == 1
    # Any user may deny everything.
    assert len(after(wire((tool, content), behavior="deny")).memory.rules) == 1


@pytest.mark.parametrize("tool", EDIT_TOOLS)
def test_the_bare_name_of_an_editing_tool_means_the_sessions_folder_and_never_the_gateways_own(tool: str) -> None:
    """Even if the session's folder is the whole home, with the gateway's data and settings in it."""
    home: dict[str, Any] = {"cwd": "/home/me", "roots": ()}
    narrowed = format_rule(check_or_narrow(tool, Behavior.ALLOW, place(**home)))
    assert narrowed == f"{tool}(./**)"

    def verdict(path: str) -> Behavior:
        return decide(ToolCall(tool, {EDIT_TOOLS[tool]: path}), place(allow=[narrowed], **home)).behavior

    assert verdict("/home/me/notes.txt") is verdict("deep/down/notes.txt") is Behavior.ALLOW
    assert verdict(f"{DATA}/fairlead.db") is verdict(f"{DATA}/../fairlead/keys") is Behavior.DENY
    asked = ("/home/me/.config/fairlead/config.toml", "../other/notes.txt", "/etc/hosts", ".bashrc", ".git/config")
    assert {path: verdict(path) for path in asked} == dict.fromkeys(asked, Behavior.ASK)


def test_a_bare_name_is_not_narrowed_to_a_folder_whose_own_name_has_a_wildcard() -> None:
    with pytest.raises(OutsideRoots):
        check_or_narrow("Write", Behavior.ALLOW, place(cwd="/srv/a*b", roots=()))


@pytest.mark.parametrize("text", ["Bash", "Bash(*)", "Write(/etc/**)", "Write(", "Edit(../**)"])
def test_a_rule_without_a_narrower_form_stays_refused(text: str) -> None:
    with pytest.raises((BadRule, OutsideRoots)):
        check_or_narrow(text, Behavior.ALLOW, place())


def test_the_refusal_of_a_bare_name_names_the_rule_that_a_session_may_have_instead() -> None:
    with pytest.raises(BadRule) as refused:
        check_rule("Write", Behavior.ALLOW, place())
    assert refused.value.data["instead"] == "Write(./**)"
    assert "name a folder (Write(./**))" in refused.value.message
    # An admin's rule and a deny rule are taken literally.
    assert check_or_narrow("Write", Behavior.ALLOW, place(), admin=True) == rule("Write")
    assert check_or_narrow("Write", Behavior.DENY, place()) == rule("Write", Behavior.DENY)


@pytest.mark.parametrize(
    "content", ["*:*", "g*:*", ":*", "a; b:*", "$x:*", "a*b:*", "echo 'x", "x=1:*", "a > b:*", " :*"]
)
def test_a_misleading_shell_rule_is_refused_even_from_an_admin(content: str) -> None:
    outcome = after(wire(("Bash", content)), admin=True)
    assert outcome.memory.rules == ()
    assert isinstance(outcome.refused[0], BadRule)


def test_a_bad_rule_does_not_discard_the_good_ones() -> None:
    outcome = after(wire(("Bash", None), ("", None), ("Bash", "make")), {"type": "nonsense"}, wire(("Bash", "ls:*")))
    assert outcome.memory.rules == (rule("Bash(make)"), rule("Bash(ls:*)"))
    assert [type(error) for error in outcome.refused] == [BadRule, BadRule, BadUpdate]


@pytest.mark.parametrize("updates", [None, "addRules", {"type": "addRules"}, 7, [None] * 65])
def test_a_value_that_is_not_a_list_of_updates_changes_nothing(updates: Any) -> None:
    outcome = remember(updates, RememberedRules(), place(), ModePolicy())
    assert outcome.memory == RememberedRules()
    assert [error.code for error in outcome.refused] == ["bad_update"]


json = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "rules", "behavior", "toolName", "mode", "directories"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(st.lists(json, max_size=4))
def test_no_update_from_the_wire_raises_or_opens_anything(updates: list[Any]) -> None:
    assert remember(updates, RememberedRules(), place(), ModePolicy()).memory.rules == ()


def test_mode_updates_obey_the_policy() -> None:
    outcome = after({"type": "setMode", "mode": "acceptEdits", "destination": SESSION})
    assert outcome.memory.mode is PermissionMode.ACCEPT_EDITS
    for word in ("bypassPermissions", "nonsense", ""):
        outcome = after({"type": "setMode", "mode": word, "destination": SESSION})
        assert outcome.memory.mode is PermissionMode.DEFAULT
        assert isinstance(outcome.refused[0], BadMode)
    allowed = after({"type": "setMode", "mode": "bypassPermissions"}, bypass=True)
    assert allowed.memory.mode is PermissionMode.BYPASS_PERMISSIONS


def test_directories_stay_inside_the_roots() -> None:
    given_directories = ["/srv/project/sub", "sub", "/etc", "../x", "~other", ""]
    outcome = after({"type": "addDirectories", "directories": given_directories, "destination": SESSION})
    assert outcome.memory.directories == ("/srv/project/sub",)
    assert [type(error) for error in outcome.refused] == [OutsideRoots] * 4
    gone = after({"type": "removeDirectories", "directories": ["sub"]}, memory=outcome.memory)
    assert gone.memory.directories == ()
    assert gone.refused == ()


def suggested(name: str, given_input: Any, **where: Any) -> list[str]:
    return [format_rule(each) for each in suggest(ToolCall(name, given_input), place(**where))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git status -s", ["Bash(git status:*)"]),
        ("git push -f", ["Bash(git push -f)"]),
        ("git -c a=b status", ["Bash(git -c a=b status)"]),
        ("git", ["Bash(git)"]),
        ("npm test", ["Bash(npm test)"]),
        ("npm run build", ["Bash(npm run build)"]),
        ("ls -la src", ["Bash(ls:*)"]),
        ("rm -rf build", ["Bash(rm -rf build)"]),
        ("make", ["Bash(make)"]),
        ("ls | wc -l", ["Bash(ls:*)", "Bash(wc:*)"]),
        ("ls; ls -a", ["Bash(ls:*)"]),
        ("cd src && make", ["Bash(cd src)", "Bash(make)"]),
        ("echo hi > out", ["Bash(echo hi > out)"]),
        ("python x.py", ["Bash(python x.py)"]),
        ("bash -c 'ls'", ["Bash(bash -c 'ls')"]),
        ("env ls", ["Bash(env ls)"]),
        ("ls | xargs rm", []),
        ("sudo ls", ["Bash(sudo ls)"]),
        ("ssh host uptime", ["Bash(ssh host uptime)"]),
        ("A=1 make", ["Bash(A=1 make)"]),
        ("make && ls ${x:-$y}", []),
        ("make *.c", ["Bash(make *.c)"]),
        ("rm $x", []),
        ("echo hi > /etc/x", []),
        ("$x", []),
        ("echo 'x", []),
        ("", []),
    ],
)
def test_suggested_rules_for_a_shell_line(line: str, expected: list[str]) -> None:
    assert suggested("Bash", {"command": line}) == expected


@pytest.mark.parametrize(
    ("name", "given_input", "expected"),
    [
        ("Write", {"file_path": "src/a.py"}, ["Write(/srv/project/src/**)"]),
        ("Edit", {"file_path": "/etc/x"}, []),
        ("Write", {"file_path": "src*/a.py"}, []),
        ("Read", {"file_path": "src/a.py"}, ["Read(/srv/project/src/**)"]),
        ("Grep", {"path": "src"}, ["Grep(/srv/project/src/**)"]),
        ("WebFetch", {"url": "https://Example.org/x"}, ["WebFetch(domain:example.org)"]),
        ("mcp__db__query", {"sql": "x"}, ["mcp__db__query"]),
        ("Task", {"subagent_type": "Explore"}, ["Task(Explore)"]),
        ("Agent", {}, ["Agent"]),
        ("Skill", {"skill": "pdf"}, ["Skill(pdf)"]),
        ("WebSearch", {"query": "x"}, ["WebSearch"]),
        ("AskUserQuestion", {}, []),
        ("ExitPlanMode", {"plan": ""}, []),
        ("Bash", {}, []),
        ("odd name", {}, []),
        ("odd(name)", {}, []),
    ],
)
def test_suggested_rules_for_other_tools(name: str, given_input: Any, expected: list[str]) -> None:
    assert suggested(name, given_input) == expected


@pytest.mark.parametrize("line", [*HONEST, *ATTACKS])
def test_a_suggestion_really_allows_the_call_it_was_made_for(line: str) -> None:
    call = ToolCall("Bash", {"command": line})
    texts = suggested("Bash", {"command": line})
    if texts:
        assert decide(call, place(allow=texts)).behavior is Behavior.ALLOW


@pytest.mark.parametrize("line", ["ls", "git status", "git log", "make", "bash -c 'ls'"])
def test_a_suggestion_lets_no_attack_through(line: str) -> None:
    texts = suggested("Bash", {"command": line})
    for attack in ATTACKS:
        assert (
            decide(ToolCall("Bash", {"command": attack}), place(allow=[*ALLOWED, *texts])).behavior
            is not Behavior.ALLOW
        )
