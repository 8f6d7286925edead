"""Nothing gets past an allow rule: the corpus, and the laws behind it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.policy import Behavior, PermissionMode
from sessions.policy.attacks import ALLOWED, ATTACKS, HONEST, WRITING
from sessions.policy.fake_folders import judge_line


@pytest.mark.parametrize("line", ATTACKS)
def test_an_attack_never_passes_by_the_rules_for_harmless_commands(line: str) -> None:
    assert judge_line(line, allow=ALLOWED).behavior is not Behavior.ALLOW


@pytest.mark.parametrize("line", HONEST)
def test_a_harmless_line_of_allowed_commands_is_not_asked_about(line: str) -> None:
    verdict = judge_line(line, allow=ALLOWED)
    assert (verdict.behavior, verdict.by) == (Behavior.ALLOW, "rule"), verdict.reason


@pytest.mark.parametrize("line", WRITING)
def test_a_rule_for_a_command_does_not_cover_the_file_that_it_writes(line: str) -> None:
    assert judge_line(line, allow=ALLOWED).behavior is Behavior.ASK
    assert judge_line(line, allow=ALLOWED, mode=PermissionMode.ACCEPT_EDITS).behavior is Behavior.ALLOW
    assert judge_line(line, allow=[*ALLOWED, "Edit(./**)"]).behavior is Behavior.ALLOW
    assert judge_line(line, allow=[f"Bash({line.strip()})"]).behavior is Behavior.ALLOW


@pytest.mark.parametrize("line", ATTACKS)
def test_an_attack_does_not_pass_in_accept_edits_mode_either(line: str) -> None:
    assert judge_line(line, allow=ALLOWED, mode=PermissionMode.ACCEPT_EDITS).behavior is not Behavior.ALLOW


# Variables and options by which a program itself runs commands: a rule for shell commands does not see them.
PROGRAMS_OWN = ("PAGER=", "core.pager=", "GIT_SSH_COMMAND=", "PROMPT_COMMAND=", "PS4=")


@pytest.mark.parametrize(
    "line", [line for line in ATTACKS if "rm x" in line and not any(p in line for p in PROGRAMS_OWN)]
)
def test_a_deny_applies_in_bypass_mode_and_asks_if_only_a_run_would_show_the_command(line: str) -> None:
    verdict = judge_line(line, deny=["Bash(rm:*)"], mode=PermissionMode.BYPASS_PERMISSIONS)
    assert verdict.behavior is not Behavior.ALLOW


separators = st.sampled_from([";", " ; ", "&&", "||", "|", "|&", "&", "\n", " \n ", ";\n", " & "])
honest = st.sampled_from([line for line in HONEST if "<<" not in line and "#" not in line])
hidden = st.sampled_from(
    ["rm x", "touch x", "$x", "x=$(rm x)", "PATH=. echo", "echo $(rm x)", "bash y.sh", "echo > /x"]
)


@given(honest, separators, hidden, st.booleans())
def test_an_allowed_command_joined_with_another_never_passes(
    line: str, separator: str, other: str, first: bool
) -> None:
    joined = other + separator + line if first else line + separator + other
    assert judge_line(joined, allow=ALLOWED).behavior is not Behavior.ALLOW


@given(honest, st.sampled_from(["({})", "{{ {}; }}", "$({})", "echo $({})", 'echo "$({})"', "echo `{}`", "! {}"]))
def test_wrapping_a_refused_command_in_syntax_does_not_help_it(line: str, form: str) -> None:
    assert judge_line(form.format("rm x"), allow=ALLOWED).behavior is not Behavior.ALLOW
    denied = judge_line(f"{line}; {form.format('rm x')}", allow=[*ALLOWED, "Bash(rm:*)"], deny=["Bash(rm:*)"])
    assert denied.behavior is Behavior.DENY


shell_soup = st.lists(
    st.sampled_from(
        [*"'\"\\$`();&|<>{}[]!#=~*?\n\t ", "echo ", "rm x", "$(", "<<EOF\n", "\nEOF\n", "if ", "fi", "é", "\0"]
    ),
    max_size=20,
).map("".join)


@given(shell_soup | st.text(max_size=60))
def test_any_text_gets_a_verdict(line: str) -> None:
    assert judge_line(line, allow=ALLOWED).behavior in Behavior
    assert judge_line(line, allow=ALLOWED, deny=["Bash"]).behavior is Behavior.DENY
