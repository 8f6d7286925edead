"""Starting the CLI: no value of a session can add or change a flag, and nothing leaks into its environment."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.launch import (
    HOOK_SECONDS,
    OVER_STDIO,
    PASSED_VARIABLES,
    arguments,
    environment,
    initialize,
    must_hold,
)
from fairlead.agents.environment import BASIC_VARIABLES
from fairlead.model.agents import Launch
from fairlead.model.commands import Settings
from fairlead.model.errors import BadId, BadMode, BadRequest
from fairlead.model.ids import SessionId

VERSIONS = [(2, 1, 37), (2, 1, 120), (2, 1, 325)]
NEW = VERSIONS[-1]
SESSION = SessionId("6a1f0b6e-5f5c-4c55-9a44-000000000001")
OTHER = "6a1f0b6e-5f5c-4c55-9a44-000000000002"

FLAGS = {
    "-p",
    "--input-format",
    "--output-format",
    "--verbose",
    "--permission-prompt-tool",
    "--permission-mode",
    "--include-partial-messages",
    "--session-id",
    "--resume",
    "--fork-session",
    "--resume-session-at",
    "--model",
    "--effort",
    "--add-dir",
    "--max-turns",
    "--max-budget-usd",
    "--setting-sources",
    "--settings",
}


def argv(version: tuple[int, int, int] = NEW, *, settings: dict[str, Any] | None = None, **launch: Any) -> list[str]:
    given_settings = Settings(**(settings or {}))
    return arguments(Launch(session=SESSION, cwd="/w", settings=given_settings, **launch), version, SESSION)


URL = f"ws://127.0.0.1:7433/v1/cli/ws/{SESSION}"


def dialing(version: tuple[int, int, int] = VERSIONS[0], url: str = URL, **launch: Any) -> list[str]:
    return arguments(Launch(session=SESSION, cwd="/w", settings=Settings(), **launch), version, SESSION, url)


@pytest.mark.rules("S004-006", "S004-007", "S004-251")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_dial_in_launch_has_our_address_and_a_placeholder_prompt(version: tuple[int, int, int]) -> None:
    for given_argv in (dialing(version), dialing(version, resume=OTHER), dialing(version, resume=OTHER, fork=True)):
        assert given_argv[:7] == [
            "-p",
            "placeholder",
            "--print",
            f"--sdk-url={URL}",
            "--input-format=stream-json",
            "--output-format=stream-json",
            "--verbose",
        ]
        assert "--include-partial-messages" in given_argv
        assert not any("permission-prompt-tool" in word for word in given_argv), "over a socket it is implied"
        assert all(word.startswith("-") for word in given_argv[2:])
    assert f"--resume={OTHER}" in dialing(version, resume=OTHER)


@pytest.mark.rules("S004-021")
@pytest.mark.parametrize("url", ["http://127.0.0.1/x", "https://h/x", "ftp://h/x", "FILE:/etc"])
def test_another_scheme_is_rejected_before_the_cli_is_started(url: str) -> None:
    with pytest.raises(BadRequest) as refused:
        dialing(url=url)
    assert refused.value.message == f"Unsupported protocol: {url.partition(':')[0].lower()}:"
    assert f"--sdk-url={URL.replace('ws', 'wss', 1)}" in dialing(url=URL.replace("ws", "wss", 1))


@pytest.mark.rules("S004-006", "S004-007")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_launch_is_headless_and_speaks_json_both_ways(version: tuple[int, int, int]) -> None:
    for given_argv in (argv(version), argv(version, resume=OTHER), argv(version, resume=OTHER, fork=True)):
        assert given_argv[: len(OVER_STDIO)] == [
            "-p",
            "--input-format=stream-json",
            "--output-format=stream-json",
            "--verbose",
            "--permission-prompt-tool=stdio",
        ]
        assert not any(word.startswith("--sdk-url") for word in given_argv)


def test_a_new_session_has_our_id_and_asks_for_partial_messages() -> None:
    assert argv(trusted=True)[len(OVER_STDIO) :] == [
        "--permission-mode=default",
        "--include-partial-messages",
        f"--session-id={SESSION}",
    ]
    assert "--include-partial-messages" not in argv(settings={"partial": False})


def test_an_untrusted_folder_runs_with_the_user_s_settings_only() -> None:
    for version in VERSIONS:
        assert "--setting-sources=user" in argv(version)
        assert not any("setting-sources" in word for word in argv(version, trusted=True))


def test_older_versions_get_an_ask_rule_for_every_tool_with_effects() -> None:
    """Ask rules override allow rules and modes: if the gateway dies with a request open, the tool must not run."""
    for version in ((2, 1, 37), (2, 1, 120)):
        (flag,) = [
            word for word in argv(version, mcp=("ours",), settings={"mcp_servers": ("theirs",)}) if "ask" in word
        ]
        name, _, value = flag.partition("=")
        assert name == "--settings"
        rules = json.loads(value)["permissions"]["ask"]
        assert {"Bash", "Write", "Edit", "NotebookEdit", "WebFetch", "mcp__*", "mcp__ours", "mcp__theirs"} <= set(rules)
        assert json.loads(value) == {"disableAllHooks": False, "permissions": {"ask": rules}}
    assert not any(word.startswith("--settings") for word in argv(NEW))


def test_a_hook_is_held_only_where_no_ask_rule_covers_the_tool() -> None:
    assert must_hold("mcp__theirs__act", (2, 1, 37))
    assert must_hold("SomethingNew", (2, 1, 37))
    assert not must_hold("Bash", (2, 1, 37))
    assert not must_hold("Bash", (2, 1, 50))
    assert must_hold("Bash", (2, 1, 63)), "its own allow rules go before our ask rules"
    assert not must_hold("AskUserQuestion", (2, 1, 63))
    assert not must_hold("Bash", (2, 1, 77))
    assert not must_hold("AskUserQuestion", (2, 1, 37))
    assert not must_hold("mcp__theirs__act", (2, 1, 120))


@pytest.mark.rules("S004-259")
def test_resume_fork_and_resume_point_become_flags() -> None:
    assert f"--resume={OTHER}" in argv(resume=OTHER)
    assert not any("session-id" in word for word in argv(resume=OTHER))
    forked = argv(resume=OTHER, fork=True, resume_at=SESSION)
    assert f"--resume={OTHER}" in forked
    assert "--fork-session" in forked
    assert f"--session-id={SESSION}" in forked
    assert f"--resume-session-at={SESSION}" in forked


def test_settings_become_flags() -> None:
    settings = {
        "model": "opus[1m]",
        "mode": "plan",
        "effort": "high",
        "directories": ("/a", "/b,c d"),
        "max_turns": 3,
        "max_budget_usd": 0.25,
    }
    args = argv(settings=settings)
    assert args[-8:] == [
        f"--session-id={SESSION}",
        "--model=opus[1m]",
        "--effort=high",
        "--add-dir=/a",
        "--add-dir=/b,c d",
        "--max-turns=3",
        "--max-budget-usd=0.25",
        "--setting-sources=user",
    ]
    assert "--permission-mode=plan" in args
    assert not any("effort" in word for word in argv(VERSIONS[0], settings=settings))


@pytest.mark.parametrize(
    ("settings", "launch", "error"),
    [
        ({"mode": "nonsense"}, {}, BadMode),
        ({"mode": "--dangerously-skip-permissions"}, {}, BadMode),
        ({"model": "-x"}, {}, BadRequest),
        ({"model": "a b"}, {}, BadRequest),
        ({"model": "a\n--settings=x"}, {}, BadRequest),
        ({"effort": "--verbose"}, {}, BadRequest),
        ({"directories": ("relative",)}, {}, BadRequest),
        ({"directories": ("--settings",)}, {}, BadRequest),
        ({"directories": ("/a\0b",)}, {}, BadRequest),
        ({"directories": ("/a\nb",)}, {}, BadRequest),
        ({"mcp_servers": ('a"]}}',)}, {"version": (2, 1, 37)}, BadRequest),
        ({"mcp_servers": ("",)}, {"version": (2, 1, 37)}, BadRequest),
        ({"max_turns": 0}, {}, BadRequest),
        ({"max_budget_usd": float("nan")}, {}, BadRequest),
        ({"max_budget_usd": float("inf")}, {}, BadRequest),
        ({"max_budget_usd": 1e-9}, {}, BadRequest),
        ({}, {"resume": "--continue"}, BadId),
        ({}, {"resume": OTHER, "resume_at": "x"}, BadId),
        ({}, {"resume": OTHER.upper()}, BadId),
    ],
)
def test_an_invalid_value_is_rejected(settings: dict[str, Any], launch: dict[str, Any], error: type[Exception]) -> None:
    version = launch.pop("version", NEW)
    with pytest.raises(error):
        argv(version, settings=settings, **launch)


hostile = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="-=,;\n\0 ab/$`'\"\\", max_size=40),
    st.sampled_from(["-p", "--settings={}", "/a --settings", "--mcp-config=x", "a,--tools", "/-", "\0", ""]),
)


@given(
    model=hostile,
    mode=hostile | st.sampled_from(["default", "plan"]),
    effort=hostile,
    directories=st.lists(hostile | hostile.map(lambda text: "/" + text), max_size=3),
    append=hostile,
    servers=st.lists(hostile, max_size=2),
    resume=hostile | st.just(OTHER),
    resume_at=hostile,
    fork=st.booleans(),
    version=st.sampled_from(VERSIONS),
    budget=st.floats() | st.none(),
    turns=st.integers() | st.none(),
)
def test_no_value_adds_or_changes_a_flag(
    model: str,
    mode: str,
    effort: str,
    directories: list[str],
    append: str,
    servers: list[str],
    resume: str,
    resume_at: str,
    fork: bool,
    version: tuple[int, int, int],
    budget: float | None,
    turns: int | None,
) -> None:
    settings = Settings(
        model=model,
        mode=mode,
        effort=effort,
        directories=tuple(directories),
        append_prompt=append,
        mcp_servers=tuple(servers),
        max_budget_usd=budget,
        max_turns=turns,
    )
    launch = Launch(session=SESSION, cwd="/w", settings=settings, resume=resume, fork=fork, resume_at=resume_at)
    try:
        args = arguments(launch, version, SESSION)
    except BadRequest:
        return
    # Every argument is one of our flags with its value attached, and no flag occurs more often than we set it.
    assert all(word.partition("=")[0] in FLAGS for word in args)
    names = [word.partition("=")[0] for word in args]
    assert all(names.count(name) == 1 for name in names if name != "--add-dir")
    assert names.count("--add-dir") == len(directories)
    assert "--setting-sources=user" in args
    assert not any("\0" in word or "\n" in word for word in args)


# --- the environment -----------------------------------------------------------------------------------


def test_the_environment_is_built_from_nothing() -> None:
    host = {
        "PATH": "/bin",
        "HOME": "/home/ann",
        "ANTHROPIC_API_KEY": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "FAIRLEAD_TOKEN": "token",
        "CLAUDECODE": "1",
        "SSH_AUTH_SOCK": "/s",
    }
    assert environment(host) == {
        "PATH": "/bin",
        "HOME": "/home/ann",
        "ANTHROPIC_API_KEY": "key",
        "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1",
    }
    assert environment(host, passed=("SSH_AUTH_SOCK", "NOT_SET"))["SSH_AUTH_SOCK"] == "/s"


@pytest.mark.rules("S004-295", "S004-296", "S004-297")
@pytest.mark.parametrize("name", ["CLAUDE_CODE_REMOTE", "CLAUDE_CODE_REMOTE_SESSION_ID", "CLAUDE_CODE_CONTAINER_ID"])
def test_remote_cli_variables_are_set_only_when_configured(name: str) -> None:
    assert name not in environment({name: "x"})
    assert environment({name: "x"}, passed=(name,))[name] == "x"


@given(st.dictionaries(st.sampled_from(["FAIRLEAD_TOKEN", "fairlead_url", "Fairlead_Data", "PATH", "X"]), st.text()))
def test_variables_of_the_gateway_are_never_passed_on(host: dict[str, str]) -> None:
    env = environment(host, passed=tuple(host))
    assert not any(name.upper().startswith("FAIRLEAD_") for name in env)


def test_a_configured_home_is_not_overridden_by_the_host() -> None:
    env = environment({"HOME": "/home/ann", "CLAUDE_CONFIG_DIR": "/elsewhere"}, home="/data/home")
    assert env["HOME"] == "/data/home"
    assert "CLAUDE_CONFIG_DIR" not in env


def test_the_lists_of_variables_hold_nothing_of_ours_and_no_name_twice() -> None:
    names = [*BASIC_VARIABLES, *PASSED_VARIABLES]
    assert len(names) == len(set(names))
    assert not any(name.upper().startswith("FAIRLEAD") for name in names)


# --- the first request -----------------------------------------------------------------------------------


@pytest.mark.rules("S004-195")
def test_the_hook_timeout_is_long_but_below_the_timer_limit() -> None:
    request = initialize(Launch(session=SESSION, cwd="/w", settings=Settings()))
    (matcher,) = request["hooks"]["PreToolUse"]
    assert matcher["timeout"] == HOOK_SECONDS
    assert 7 * 24 * 3600 < HOOK_SECONDS < 2**31 / 1000
    assert "matcher" not in matcher
    assert set(request) == {"hooks", "forwardSubagentText"}
