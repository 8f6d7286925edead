"""The order of the decision: fence, deny, ask, mode, allow, read-only, else a person."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.policy import Behavior, PermissionMode
from sessions.policy.fake_folders import DATA, judge, judge_line

ALLOW, DENY, ASK = Behavior.ALLOW, Behavior.DENY, Behavior.ASK
MODES = list(PermissionMode)

READ = ("Read", {"file_path": "src/a"})
WRITE = ("Write", {"file_path": "src/a", "content": "x"})
EDIT = ("Edit", {"file_path": "src/a", "old_string": "x", "new_string": "y"})
NOTEBOOK = ("NotebookEdit", {"notebook_path": "a.ipynb", "new_source": "x"})
BASH = ("Bash", {"command": "make"})
FETCH = ("WebFetch", {"url": "https://example.org/x", "prompt": "?"})
TODO: tuple[str, dict[str, Any]] = ("TodoWrite", {"todos": []})
TASK = ("Task", {"subagent_type": "Explore", "prompt": "?"})
AGENT = ("Agent", {"subagent_type": "Explore", "prompt": "?"})
QUESTION: tuple[str, dict[str, Any]] = ("AskUserQuestion", {"questions": []})
PLAN = ("ExitPlanMode", {"plan": "x"})
MCP = ("mcp__db__query", {"sql": "select 1"})
UNKNOWN = ("Teleport", {"to": "mars"})

CALLS = [READ, WRITE, EDIT, NOTEBOOK, BASH, FETCH, TODO, TASK, AGENT, QUESTION, PLAN, MCP, UNKNOWN]

# The verdicts per mode without any rule, in the order of CALLS.
TABLE = {
    "default": "allow ask ask ask ask ask allow allow allow ask ask ask ask",
    "auto": "allow ask ask ask ask ask allow allow allow ask ask ask ask",
    "acceptEdits": "allow allow allow allow ask ask allow allow allow ask ask ask ask",
    "bypassPermissions": "allow allow allow allow allow allow allow allow allow ask ask allow allow",
    "plan": "allow deny deny deny deny ask allow allow allow ask ask ask ask",
    "delegate": "deny deny deny deny deny deny allow allow allow ask ask deny deny",
    "dontAsk": "allow deny deny deny deny deny allow allow allow ask ask deny deny",
}


@pytest.mark.parametrize("mode", TABLE)
def test_the_modes_without_any_rule(mode: str) -> None:
    got = [judge(*call, mode=PermissionMode(mode)).behavior.value for call in CALLS]
    assert dict(zip([call[0] for call in CALLS], got, strict=True)) == dict(
        zip([call[0] for call in CALLS], TABLE[mode].split(), strict=True)
    )


def test_a_verdict_names_its_source_and_reason() -> None:
    assert judge(*BASH, deny=["Bash(make:*)"]).rule == "Bash(make:*)"
    assert judge(*BASH, deny=["Bash(make:*)"]).by == "rule"
    assert judge(*BASH, mode=PermissionMode.PLAN).by == "mode"
    assert judge("Read", {"file_path": DATA}).by == "fence"
    assert judge(*BASH).by == "default"
    assert "no rule allows 'make'" in judge(*BASH).reason
    assert judge_line("a && b", allow=["Bash(a)", "Bash(b:*)"]).rule == "Bash(a), Bash(b:*)"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", [QUESTION, PLAN])
def test_a_question_always_goes_to_a_person(call: tuple[str, Any], mode: PermissionMode) -> None:
    assert judge(*call, mode=mode, allow=[call[0]]).behavior is ASK
    assert judge(*call, mode=mode, deny=[call[0]]).behavior is DENY


contexts = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(MODES),
        "allow": st.lists(st.sampled_from(["Bash", "Bash(make:*)", "Read", "Edit", "mcp__db", "WebFetch", "Task"])),
    }
)


@given(st.sampled_from(CALLS), contexts)
def test_deny_beats_everything(call: tuple[str, Any], context: dict[str, Any]) -> None:
    assert judge(*call, **context, deny=[call[0]], ask=[call[0]]).behavior is DENY


@given(st.sampled_from(CALLS), contexts)
def test_ask_beats_allow_and_every_mode(call: tuple[str, Any], context: dict[str, Any]) -> None:
    expected = DENY if context["mode"] is PermissionMode.DONT_ASK and call not in (QUESTION, PLAN) else ASK
    assert judge(*call, **context, ask=[call[0]]).behavior is expected


@given(st.sampled_from(CALLS), contexts)
def test_an_allow_rule_never_makes_a_call_harder(call: tuple[str, Any], context: dict[str, Any]) -> None:
    rank = {DENY: 0, ASK: 1, ALLOW: 2}
    more = {**context, "allow": [*context["allow"], call[0]]}
    assert rank[judge(*call, **more).behavior] >= rank[judge(*call, **context).behavior]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(
    st.sampled_from(["command", "file_path", "path", "pattern", "url", "notebook_path", "skill", "subagent_type", "x"]),
    json | st.sampled_from(["/", "~", "..", "a\0b", "http://[", "http://x:99999999", "/**", "\ud800"]),
    max_size=4,
)
tool_names = st.sampled_from([*(call[0] for call in CALLS), "Glob", "Grep", "LS", "NotebookRead", "Skill"]) | st.text(
    max_size=8
)
some_rules = st.lists(
    st.sampled_from(
        ["Bash(x:*)", "Bash(a; b)", "Bash(:*)", "Read(~x/**)", "Edit(**)", "WebFetch(domain:x)", "Skill(y)", "Foo(z)"]
    ),
    max_size=3,
)


@given(tool_names, arguments | json, contexts, some_rules, some_rules)
def test_every_call_gets_a_verdict_whatever_its_input(
    name: str, given_input: Any, context: dict[str, Any], deny: list[str], ask: list[str]
) -> None:
    assert judge(name, given_input, **context, deny=deny, ask=ask).behavior in Behavior


@pytest.mark.parametrize(
    ("name", "given_input"),
    [
        ("Bash", {}),
        ("Bash", {"command": 3}),
        ("Bash", {"command": ["rm", "x"]}),
        ("Bash", {"command": " \n"}),
        ("Bash", None),
        ("Bash", "rm x"),
        ("Bash", []),
        ("Read", {}),
        ("Read", {"file_path": None}),
        ("Read", {"file_path": ""}),
        ("Read", {"file_path": "a\0b"}),
        ("Read", {"file_path": "~other/x"}),
        ("Write", {"path": "a"}),
        ("Grep", {"path": 7}),
        ("Glob", {}),
        ("Glob", {"pattern": 7}),
        ("Glob", {"pattern": "*", "path": 7}),
        ("WebFetch", {}),
        ("WebFetch", {"url": "example.org"}),
        ("WebFetch", {"url": "http://["}),
        ("WebFetch", {"url": "http://x:99999"}),
        ("WebFetch", {"url": "file:///etc/passwd"}),
    ],
)
def test_a_malformed_call_asks_in_every_mode_that_asks(name: str, given_input: Any) -> None:
    for mode in (PermissionMode.DEFAULT, PermissionMode.BYPASS_PERMISSIONS, PermissionMode.ACCEPT_EDITS):
        assert judge(name, given_input, mode=mode).behavior is ASK
    assert judge(name, given_input, mode=PermissionMode.DONT_ASK).behavior is DENY
    assert judge(name, given_input, deny=[name]).behavior is DENY
    assert judge(name, given_input, deny=[f"{name}(x)"], mode=PermissionMode.BYPASS_PERMISSIONS).behavior is ASK


@pytest.mark.parametrize(
    ("name", "given_input", "expected"),
    [
        ("Read", {"file_path": "/srv/project/a"}, ALLOW),
        ("Read", {"file_path": "/etc/passwd"}, ASK),
        ("Read", {"file_path": "../x"}, ASK),
        ("NotebookRead", {"notebook_path": "a.ipynb"}, ALLOW),
        ("Grep", {"pattern": "x"}, ALLOW),
        ("Grep", {"pattern": "x", "path": "/etc"}, ASK),
        ("LS", {"path": "/srv/project"}, ALLOW),
        ("Glob", {"pattern": "**/*.py"}, ALLOW),
        ("Glob", {"pattern": "**/*.py", "path": "src"}, ALLOW),
        ("Glob", {"pattern": "/etc/**"}, ASK),
        ("Glob", {"pattern": "/srv/project/**"}, ALLOW),
        ("Glob", {"pattern": "../../**"}, ASK),
        ("Glob", {"pattern": "src/../../x"}, ASK),
        ("BashOutput", {"bash_id": "1"}, ALLOW),
        ("KillBash", {"shell_id": "1"}, ALLOW),
    ],
)
def test_reading_inside_the_roots_is_allowed_without_asking(name: str, given_input: Any, expected: Behavior) -> None:
    assert judge(name, given_input).behavior is expected


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".claude/settings.json", ".mcp.json", "/etc/x", "../x", "~/x"]
)
def test_accept_edits_does_not_cover_files_that_run_later_or_lie_outside(path: str) -> None:
    for name in ("Write", "Edit", "MultiEdit"):
        assert judge(name, {"file_path": path}, mode=PermissionMode.ACCEPT_EDITS).behavior is ASK
        assert judge(name, {"file_path": path}, allow=[f"Edit({path})"]).behavior is ALLOW


class TestRules:
    def test_families(self) -> None:
        assert judge(*WRITE, allow=["Edit(./src/**)"]).behavior is ALLOW
        assert judge(*EDIT, allow=["Write(./src/**)"]).behavior is ASK
        assert judge(*EDIT, allow=["Edit"], deny=["Write(./src/**)"]).behavior is DENY
        assert judge("Grep", {"path": "/opt/x", "pattern": "y"}, allow=["Read(/opt/**)"]).behavior is ALLOW
        assert judge("Grep", {"path": "src", "pattern": "y"}, deny=["Read(./src)"]).behavior is DENY

    def test_paths(self) -> None:
        write = ("Write", {"file_path": "/opt/a/b", "content": ""})
        assert judge(*write, allow=["Write(/opt/**)"]).behavior is ALLOW
        assert judge(*write, allow=["Write(/opt/*)"]).behavior is ASK
        assert judge(*write, allow=["Write(/opt)"]).behavior is ASK
        assert judge(*write, allow=["Write(~x/**)"]).behavior is ASK
        assert judge(*write, allow=["Write"], deny=["Write(/opt)"]).behavior is DENY
        assert judge("Read", {"file_path": "~/notes"}, allow=["Read(~/notes)"]).behavior is ALLOW

    def test_the_same_tool_under_another_versions_name(self) -> None:
        for call in (TASK, AGENT):
            for name in ("Task", "Agent"):
                assert judge(*call, deny=[name]).behavior is DENY
                assert judge(*call, deny=[f"{name}(Explore)"]).behavior is DENY
                assert judge(*call, deny=[f"{name}(Other)"]).behavior is ALLOW

    def test_tools_chosen_by_a_name(self) -> None:
        skill = ("Skill", {"skill": "pdf"})
        assert judge(*skill, allow=["Skill(pdf)"]).behavior is ALLOW
        assert judge(*skill, allow=["Skill(other)"]).behavior is ASK
        assert judge(*skill, allow=["Skill"], deny=["Skill(pdf)"]).behavior is DENY

    def test_mcp_tools_and_servers(self) -> None:
        for rule in ("mcp__db__query", "mcp__db", "mcp__db__*"):
            assert judge(*MCP, allow=[rule]).behavior is ALLOW
            assert judge(*MCP, deny=[rule], mode=PermissionMode.BYPASS_PERMISSIONS).behavior is DENY
        for rule in ("mcp__d", "mcp__db__que", "mcp__db__quer__*", "mcp__other"):
            assert judge(*MCP, allow=[rule]).behavior is ASK
            assert judge(*MCP, deny=[rule], mode=PermissionMode.BYPASS_PERMISSIONS).behavior is ALLOW
        # A rule for one tool does not allow another tool whose name starts with the first one's.
        assert judge("mcp__db__query__drop", {}, allow=["mcp__db__query"]).behavior is ASK
        assert judge("mcp__db__query__drop", {}, allow=["mcp__db"], deny=["mcp__db__query"]).behavior is DENY

    def test_an_unknown_rule_content_never_allows_and_a_deny_with_it_asks(self) -> None:
        assert judge(*MCP, allow=["mcp__db__query(x)"]).behavior is ASK
        assert judge(*MCP, deny=["mcp__db__query(x)"], mode=PermissionMode.BYPASS_PERMISSIONS).behavior is ASK
        assert judge(*FETCH, allow=["WebFetch(https://example.org)"]).behavior is ASK

    @pytest.mark.parametrize(
        ("rule", "allowed", "denied"),
        [
            ("WebFetch(domain:example.org)", True, True),
            ("WebFetch(domain:EXAMPLE.org)", True, True),
            ("WebFetch(domain:org)", False, True),
            ("WebFetch(domain:*.org)", True, True),
            ("WebFetch(domain:*.example.org)", False, True),
            ("WebFetch(domain:xample.org)", False, False),
            ("WebFetch(domain:example.com)", False, False),
        ],
    )
    def test_domains(self, rule: str, allowed: bool, denied: bool) -> None:
        assert (judge(*FETCH, allow=[rule]).behavior is ALLOW) is allowed
        assert (judge(*FETCH, allow=["WebFetch"], deny=[rule]).behavior is DENY) is denied

    @pytest.mark.parametrize(
        ("rule", "line", "expected"),
        [
            ("git:*", "git push", True),
            ("git:*", "git", True),
            ("git:*", "gitk", False),
            ("git push:*", "git push -f", True),
            ("git push:*", "git pushx", False),
            ("git push:*", "git", False),
            ("git push", "git push", True),
            ("git push", "git push -f", False),
            ("git push", "'git' push", True),
            ("git push:*", "'git' push", False),
            ("npm run test*", "npm run test-all", True),
            ("npm run test*", "npm run test", True),
            ("npm run test*", "npm run build", False),
            ("npm run test*", "npm run test $x", False),
            ("npm run test*:*", "npm run test-a -- -x", True),
            ("make -j*", "make -j8", True),
            ("a*b", "axb", False),
            ("*", "anything; at all", True),
            ("a && b", "a && b", True),
            ("a && b", "a", False),
            ("a && b", "b && a", False),
            ("A=1 b", "A=1 b", True),
            ("A=1 b", "A=2 b", False),
            ("bash x.sh:*", "bash x.sh -v", True),
            ("bash:*", "bash x.sh", False),
            ("bash -c 'make all'", "bash -c 'make all'", True),
            ("bash -c 'make all':*", "bash -c 'make all' x", True),
            ("sudo apt update:*", "sudo apt update -y", True),
            ("sudo apt:*", "sudo bash x.sh", False),
            ("sudo bash:*", "sudo bash x.sh", False),
            ("ssh host uptime", "ssh host uptime", True),
            ("ssh host:*", "ssh host uptime", False),
            ("xargs rm", "xargs rm", False),
            ("find . -delete", "find . -delete", True),
            ("echo 'unfinished", "echo 'unfinished", False),
            ("$x", "$x", False),
            ("echo hi > /etc/x", "echo hi > /etc/x", False),
            ("echo hi > x", "echo hi > x", True),
        ],
    )
    def test_what_a_rule_for_shell_commands_allows(self, rule: str, line: str, expected: bool) -> None:
        assert (judge_line(line, allow=[f"Bash({rule})"]).behavior is ALLOW) is expected

    @pytest.mark.parametrize(
        ("rule", "line", "expected"),
        [
            ("rm:*", "echo a; rm b", DENY),
            ("rm:*", "/bin/rm b", DENY),
            ("rm:*", "\\rm b", DENY),
            ("rm:*", "r''m b", DENY),
            ("rm:*", "sudo env rm b", DENY),
            ("rm:*", "find . -delete", DENY),
            ("rm:*", "echo rm", ALLOW),
            ("rm:*", "rmdir x", ALLOW),
            ("rm:*", "A=1 make", ALLOW),
            ("rm:*", "$x b", ASK),
            ("rm:*", "ssh host rm b", ASK),
            ("rm:*", "bash x.sh", ALLOW),
            ("rm:*", "echo 'x", ASK),
            ("rm b", "rm b", DENY),
            ("rm b", "rm c", ALLOW),
            ("rm b", "rm $x", ASK),
            ("git push:*", "git -C x push", ASK),
            ("git push:*", "git $x", ASK),
            ("git push --force:*", "git $x", ASK),
            ("git push --force:*", "git p* x", ASK),
            ("git push:*", "git status", ALLOW),
            ("git push:*", "/usr/bin/git push", DENY),
            ("git push:*", "$git push", ASK),
            ("git push:*", "git pull $x", ASK),
            ("git pu*:*", "git p${x}", ASK),
            ("git pu*:*", "git a${x}", ALLOW),
            ("a && b", "a && b", DENY),
            ("a && b", "c", ALLOW),
            ("echo 'x", "echo 'x", DENY),
            ("echo 'x", "echo y", ALLOW),
            ("x=1", "x=1", DENY),
            ("*", "x", DENY),
        ],
    )
    def test_what_a_rule_for_shell_commands_refuses(self, rule: str, line: str, expected: Behavior) -> None:
        verdict = judge_line(line, deny=[f"Bash({rule})"], mode=PermissionMode.BYPASS_PERMISSIONS)
        assert verdict.behavior is expected
        if expected is not ALLOW:
            assert judge_line(line, deny=[f"Bash({rule})"], mode=PermissionMode.DONT_ASK).behavior is DENY

    @pytest.mark.parametrize(
        ("rule", "line", "expected"),
        [
            ("Edit(./secret/**)", "echo x > secret/a", DENY),
            ("Write(./secret/**)", "sh -c 'echo x >> secret/a'", DENY),
            ("Edit(./secret/**)", "rm secret/a", ASK),
            ("Edit(./secret/**)", "cat other", ALLOW),
            ("Read(./.env)", "cat .env", DENY),
            ("Read(./.env)", "cat < .env", DENY),
            ("Read(./.env)", "tool --file=.env", DENY),
            ("Read(./.env)", "X=.env; cat $X", DENY),
            ("Read(./.env)", "cat .envrc $x", ALLOW),
            ("Read(~/.ssh/**)", "cat ~/.ssh/id", DENY),
            ("Read(~/.ssh/**)", "cat '~/.ssh/id'", ALLOW),
            ("Read", "cat .env", ALLOW),
        ],
    )
    def test_closed_paths_are_closed_to_the_shell_too(self, rule: str, line: str, expected: Behavior) -> None:
        assert judge_line(line, deny=[rule], mode=PermissionMode.BYPASS_PERMISSIONS).behavior is expected
