"""The rules that a session remembers from the wire, and the rules that an "always allow" suggests."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.tools import TOOLS
from fairlead.model.errors import OutsideRoots
from fairlead.model.policy import BadRule, Behavior, Rule, format_rule, parse_rule
from fairlead.sessions.permissions.policy.call import ToolCall
from fairlead.sessions.permissions.policy.decide import decide
from fairlead.sessions.permissions.policy.remember import BadUpdate, check_or_narrow, check_remembered, check_rule
from fairlead.sessions.permissions.policy.suggest import suggest
from sessions.policy.attacks import ALLOWED, ATTACKS, HONEST
from sessions.policy.fake_folders import DATA, place


def rule(text: str, behavior: Behavior = Behavior.ALLOW) -> Rule:
    return parse_rule(text, behavior)


def test_the_rules_of_an_answer_are_remembered_once_each_and_for_the_session() -> None:
    texts = ("Bash(git:*)", " Read(./src/**) ", "Bash(git:*)")
    assert check_remembered(texts, place(), admin=False) == ("Bash(git:*)", "Read(./src/**)")
    assert check_rule("Bash(git:*)", Behavior.ALLOW, place()).source == "session"


def test_the_clis_double_slash_becomes_a_single_slash() -> None:
    texts = ("Read(//srv/project/src/**)",)
    assert check_remembered(texts, place(), admin=False) == ("Read(/srv/project/src/**)",)


@pytest.mark.parametrize(
    "text",
    [
        "Bash",
        "Bash(*)",
        "Write",
        "Edit",
        "Read",
        "Read(//**)",
        "Write(/etc/**)",
        "Edit(../**)",
        "Edit(~other/**)",
    ],
)
def test_an_allow_that_opens_everything_needs_an_admin(text: str) -> None:
    with pytest.raises((BadRule, OutsideRoots)):
        check_remembered([text], place(), admin=False)
    assert len(check_remembered([text], place(), admin=True)) == 1
    # Any user may deny everything.
    assert check_rule(text, Behavior.DENY, place()) == rule(text, Behavior.DENY)


@pytest.mark.parametrize("tool", [name for name, tool in TOOLS.tools.items() if tool.effect == "edit"])
def test_the_bare_name_of_an_editing_tool_means_the_sessions_folder_and_never_the_gateways_own(tool: str) -> None:
    """Even if the session's folder is the whole home, with the gateway's data and settings in it."""
    home: dict[str, Any] = {"cwd": "/home/me", "roots": ()}
    narrowed = format_rule(check_or_narrow(tool, Behavior.ALLOW, place(**home)))
    assert narrowed == f"{tool}(./**)"

    def verdict(path: str) -> Behavior:
        return decide(ToolCall(tool, {TOOLS.find(tool).argument: path}), place(allow=[narrowed], **home)).behavior

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
    with pytest.raises(BadRule):
        check_remembered([f"Bash({content})"], place(), admin=True)


def test_one_bad_rule_refuses_the_answer() -> None:
    for bad in ("", "Bash", "Bash(", "odd name", "Write(/etc/**)"):
        with pytest.raises((BadRule, OutsideRoots)):
            check_remembered(["Bash(make)", bad, "Bash(ls:*)"], place(), admin=False)


def test_the_rules_of_one_answer_are_limited() -> None:
    assert check_remembered(["Bash(make)"] * 64, place(), admin=False) == ("Bash(make)",)
    with pytest.raises(BadUpdate) as refused:
        check_remembered(["Bash(make)"] * 65, place(), admin=True)
    assert refused.value.code == "bad_update"


@given(st.lists(st.text(max_size=8), max_size=4))
def test_no_text_from_the_wire_opens_everything(texts: list[str]) -> None:
    with suppress(BadRule, OutsideRoots):
        remembered = check_remembered(texts, place(), admin=False)
        assert not {"Bash", "Bash(*)", *(name for name, tool in TOOLS.tools.items() if tool.has_path)} & set(remembered)


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
