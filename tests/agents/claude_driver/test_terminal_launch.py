"""Starting the interactive CLI: no value becomes a flag by itself, and unsupported settings are rejected."""

from typing import Any

import pytest

from fairlead.agents.claude.launch import BadAgentSetting, in_terminal, terminal_environment
from fairlead.model.agents import Launch
from fairlead.model.commands import Settings
from fairlead.model.errors import BadMode
from fairlead.model.ids import SessionId

SESSION = SessionId("6a1f0b6e-5f5c-4c55-9a44-000000000001")
OTHER = "6a1f0b6e-5f5c-4c55-9a44-000000000002"
OLD, MIDDLE, NEW = (2, 1, 37), (2, 1, 120), (2, 1, 325)


def words(version: tuple[int, int, int] = NEW, settings: Settings | None = None, **fields: Any) -> list[str]:
    launch = Launch(session=SESSION, cwd="/w", settings=settings or Settings(link="terminal"), **fields)
    return in_terminal(launch, version, SESSION, '{"hooks":{}}')


def test_a_new_conversation() -> None:
    assert words(trusted=True) == [
        "--permission-mode=default",
        f"--session-id={SESSION}",
        '--settings={"hooks":{}}',
    ]


def test_settings_of_an_untrusted_folder_are_ignored() -> None:
    assert "--setting-sources=user" in words() and "--setting-sources=user" not in words(trusted=True)


def test_everything_that_can_be_set() -> None:
    settings = Settings(
        link="terminal",
        mode="plan",
        model="claude-x",
        effort="high",
        directories=("/srv/a", "/srv/b"),
        append_prompt="--help\nBe brief.",
    )
    given = words(settings=settings)
    assert given[2:-2] == [
        "--model=claude-x",
        "--effort=high",
        "--add-dir=/srv/a",
        "--add-dir=/srv/b",
        "--append-system-prompt=--help\nBe brief.",
    ]
    assert not any(word.startswith("-p") for word in given) and "--effort=high" not in words(OLD, settings)


def test_resume_and_fork() -> None:
    assert words(resume=OTHER)[1] == f"--resume={OTHER}"
    assert words(OLD, resume=OTHER, fork=True)[1:4] == [
        f"--resume={OTHER}",
        "--fork-session",
        f"--session-id={SESSION}",
    ]
    assert not any("resume" in word for word in words(MIDDLE, resume=OTHER)), "there it is a command"
    with pytest.raises(BadAgentSetting, match="set the link to stdio"):
        words(MIDDLE, resume=OTHER, fork=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_turns": 3},
        {"max_budget_usd": 1.0},
        {"output_schema": {"type": "object"}},
        {"mcp_servers": ("notes",)},
        {"append_prompt": "a\0b"},
        {"model": "--x"},
    ],
)
def test_unsupported_settings_are_rejected(settings: dict[str, Any]) -> None:
    with pytest.raises(BadAgentSetting):
        words(settings=Settings(link="terminal", **settings))


def test_an_unknown_mode_is_rejected() -> None:
    with pytest.raises(BadMode):
        words(settings=Settings(link="terminal", mode="nonsense"))


def test_the_environment_of_the_terminal() -> None:
    launch = Launch(session=SESSION, cwd="/w", settings=Settings(thinking=2048))
    env = terminal_environment({"TERM": "dumb", "LANG": "de_DE.UTF-8"}, launch, NEW)
    assert env["TERM"] == "xterm-256color" and "LC_ALL" not in env and env["MAX_THINKING_TOKENS"] == "2048"
    assert terminal_environment({"LANG": "C"}, launch, OLD)["LC_ALL"] == "C.UTF-8"
