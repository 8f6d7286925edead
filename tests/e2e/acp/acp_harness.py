"""How tests run real ACP agents: the command line, the environment and the settings files of each.

Everything here keeps one promise: an agent gets an environment built from nothing, a made-up key, its own HOME, and the
scripted model as its only API, in a network that is loopback alone. Each agent is set up so that it asks before it
changes something. A test may start `Agent.command` over pipes, or name it in Fairlead's settings.
"""

import datetime
import json
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from e2e.harness import API_KEY, DAY, program_folders, why_not_isolated
from tools.acp_agents import program_path

MODEL = "scripted"
Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Agent:
    """How one agent is started: the whole command line and the whole environment."""

    name: str
    command: list[str]
    env: dict[str, str]


ROTATION = ("codex", "gemini", "codex", "gemini", "codex", "gemini", "codex", "opencode")
"""The agents of eight days in a row. opencode takes several times as long to start as the others."""


def each_agent(test: Test) -> Test:
    """Run a test on every agent, one each day; FAIRLEAD_ACP names others (`gemini,opencode,codex`, `all`)."""
    chosen = os.environ.get("FAIRLEAD_ACP", "")
    if chosen:
        names = [name for name in AGENTS if chosen == "all" or name in chosen.split(",")]
    else:
        names = [ROTATION[(zlib.crc32(test.__name__.encode()) + DAY) % len(ROTATION)]]
    marked: Test = pytest.mark.parametrize("agent_name", names)(test)
    return marked


def why_not_here(name: str) -> str | None:
    """Why this agent may not or cannot run here, or None."""
    if reason := why_not_isolated():
        return reason
    if not program_path(name).exists():
        return f"{name} is not at {program_path(name)}: `python -m tools.acp_agents {name}` fetches it"
    if program_path(name).suffix == ".js" and not shutil.which("node"):
        return f"{name} is a script for node, and there is no node on PATH"
    return None


def prepared(name: str, home: Path, model_url: str) -> Agent:
    """Write the agent's settings into this HOME and say how to start it there."""
    arguments, variables = AGENTS[name](home, model_url)
    program = str(program_path(name))
    node = [shutil.which("node") or "node"] if program.endswith(".js") else []
    base = {
        "PATH": ":".join(program_folders()),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
    return Agent(name, [*node, program, *arguments], base | variables)


def an_hour_later(home: Path) -> None:
    """Make the stored sessions an hour older, where an agent needs that.

    Gemini CLI names a session's file by the minute of its start, and overwrites it when `session/load` comes within
    that minute: the session is then lost.
    """
    for path in home.glob(".gemini/tmp/*/chats/session-*.jsonl"):
        began, _, rest = path.name.removeprefix("session-").rpartition("-")
        minute = datetime.datetime.strptime(began, "%Y-%m-%dT%H-%M") - datetime.timedelta(hours=1)
        path.rename(path.with_name(f"session-{minute:%Y-%m-%dT%H-%M}-{rest}"))


def _gemini(home: Path, model_url: str) -> tuple[list[str], dict[str, str]]:
    """In its mode `default`, with which every session begins, it asks for commands, edits and lists of todos."""
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "ide": {"enabled": False},
        # Otherwise it downloads a search program.
        "tools": {"useRipgrep": False},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    variables = {
        "GEMINI_API_KEY": API_KEY,
        "GOOGLE_GEMINI_BASE_URL": model_url,
        # One model by its name: otherwise it asks the model which model to use.
        "GEMINI_MODEL": "gemini-2.5-flash",
        # Otherwise it starts itself a second time, to get more memory.
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    return ["--acp"], variables


def _opencode(home: Path, model_url: str) -> tuple[list[str], dict[str, str]]:
    """Unless its settings say so, it asks for nothing inside the project's folder."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{model_url}/v1", "apiKey": API_KEY},
        "models": {MODEL: {"name": "Scripted", "tool_call": True, "reasoning": True}},
    }
    settings = {
        "provider": {"scripted": provider},
        "model": f"scripted/{MODEL}",
        "small_model": f"scripted/{MODEL}",
        "enabled_providers": ["scripted"],
        "permission": {"edit": "ask", "bash": "ask", "webfetch": "ask"},
        "autoupdate": False,
        "share": "disabled",
        "lsp": False,
    }
    _write(home / ".config" / "opencode" / "opencode.json", json.dumps(settings))
    off = ("AUTOUPDATE", "LSP_DOWNLOAD", "MODELS_FETCH", "DEFAULT_PLUGINS", "SHARE", "CLAUDE_CODE", "EXTERNAL_SKILLS")
    return ["acp"], {f"OPENCODE_DISABLE_{what}": "true" for what in off}


_CODEX_SETTINGS = """\
# A model that Codex knows: others get no tool for edits, and the newest get one tool that runs JavaScript.
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[tools]
update_plan = {{ enabled = true }}

[analytics]
enabled = false

[feedback]
enabled = false

[model_providers.scripted]
name = "Scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


def _codex(home: Path, model_url: str) -> tuple[list[str], dict[str, str]]:
    """In its mode `read-only` it asks for every edit, and for commands that the model wants to run without the sandbox.

    Other commands run at once in a sandbox that can only read.
    """
    _write(home / ".codex" / "config.toml", _CODEX_SETTINGS.format(url=model_url))
    # Codex creates the helpers of its sandbox in CODEX_HOME, but not if that is in the folder of temporary files.
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    variables = {
        "CODEX_HOME": str(home / ".codex"),
        "TMPDIR": str(temporary),
        "SCRIPTED_KEY": API_KEY,
        "NO_BROWSER": "1",
        "INITIAL_AGENT_MODE": "read-only",
    }
    return [], variables


AGENTS: dict[str, Callable[[Path, str], tuple[list[str], dict[str, str]]]] = {
    "gemini": _gemini,
    "opencode": _opencode,
    "codex": _codex,
}
"""Each agent's arguments and variables, by its name in tools/acp_agents.py."""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
