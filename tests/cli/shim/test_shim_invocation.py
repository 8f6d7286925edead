"""The arguments of the shim: which runs are lent to the gateway, under which session, with which settings."""

import pytest

from fairlead.cli.shim.invocation import Invocation, read_arguments, split_wrapped

NEW = "11111111-1111-4111-8111-111111111111"
OLD = "22222222-2222-4222-8222-222222222222"
BOTH = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")


def lent(*arguments: str) -> Invocation:
    found = read_arguments([*BOTH, *arguments], NEW)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--version"],
        ["-v"],
        ["doctor"],
        ["mcp", "list"],
        ["update"],
        ["-p", "hello"],
        ["-p", "hello", "--output-format", "json"],
        ["-p", "hello", "--output-format", "stream-json"],
        ["--output-format=stream-json", "--input-format=text"],
        [*BOTH, "--help"],
        [*BOTH, "--sdk-url", "ws://127.0.0.1:1"],
        ["-p", "--", *BOTH],
    ],
)
def test_other_runs_are_left_alone(arguments: list[str]) -> None:
    assert read_arguments(arguments, NEW) is None


def test_both_forms_of_an_option_are_read() -> None:
    joined = read_arguments(["--output-format=stream-json", "--input-format=stream-json", f"--resume={OLD}"], NEW)
    assert joined is not None and joined.session == OLD


def test_a_new_conversation_gets_an_id() -> None:
    found = lent()
    assert (found.session, found.resumes) == (NEW, False)
    assert found.command_line() == [*BOTH, f"--session-id={NEW}"]
    named = lent("--session-id", OLD.upper())
    assert (named.session, named.extra) == (OLD, ())


def test_our_arguments_come_before_the_text_of_a_prompt() -> None:
    assert lent("--", "--not-an-option").command_line(["--more"]) == [
        *BOTH,
        f"--session-id={NEW}",
        "--more",
        "--",
        "--not-an-option",
    ]


@pytest.mark.parametrize("arguments", [["--resume", OLD], ["-r", OLD], [f"--resume={OLD}"]])
def test_a_resumed_conversation_keeps_its_id(arguments: list[str]) -> None:
    found = lent(*arguments)
    assert (found.session, found.resumes, found.extra) == (OLD, True, ())


@pytest.mark.parametrize("arguments", [["--continue"], ["-c"], ["--resume", "a title"], ["--resume"]])
def test_where_only_the_cli_knows_the_conversation_its_first_record_tells(arguments: list[str]) -> None:
    found = lent(*arguments)
    assert (found.session, found.resumes, found.extra) == ("", True, ())


@pytest.mark.parametrize("arguments", [["--resume", OLD, "--fork-session"], ["--continue", "--fork-session"]])
def test_a_fork_is_a_new_conversation(arguments: list[str]) -> None:
    found = lent(*arguments)
    assert (found.session, found.resumes, found.extra) == (NEW, False, (f"--session-id={NEW}",))


def test_who_answers_permission_requests() -> None:
    assert lent("--permission-prompt-tool", "stdio").asks
    assert not lent("--permission-prompt-tool", "mcp__x__y").asks
    assert not lent().asks


def test_the_settings_are_those_with_which_the_session_is_resumed() -> None:
    found = lent(
        *("--model", "opus", "--permission-mode", "acceptEdits", "--add-dir", "/a", "--add-dir=/b"),
        *("--append-system-prompt", "be brief", "--max-turns", "3", "--max-budget-usd", "0.5"),
        *("--include-partial-messages", "--effort", "high"),
    )
    assert found.settings == {
        "model": "opus",
        "mode": "acceptEdits",
        "directories": ["/a", "/b"],
        "append_prompt": "be brief",
        "max_turns": 3,
        "max_budget_usd": 0.5,
        "partial": True,
        "effort": "high",
    }
    assert lent("--max-turns", "many").settings == {"partial": False}
    assert lent("--dangerously-skip-permissions").settings["mode"] == "bypassPermissions"


def test_a_wrapper_gets_the_command_before_its_arguments() -> None:
    assert split_wrapped(["/usr/bin/claude", "--verbose", "x"]) == (["/usr/bin/claude"], ["--verbose", "x"])
    assert split_wrapped(["node", "cli.js", "-p"]) == (["node", "cli.js"], ["-p"])
    assert split_wrapped(["claude"]) == (["claude"], [])
