"""The command line of the demo agent: it accepts and refuses the same flags as the real CLI.

Rule: pure. A flag without a meaning for a scripted agent is read and ignored, so that the gateway can start the demo
agent with exactly the arguments that it would pass to the real program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

DEFAULT_MODEL = "claude-opus-5-5"

# Flags that take one value (True: we use it), by the names of CLI 2.1.325.
_VALUE = {
    "--model": True,
    "--permission-mode": True,
    "--permission-prompt-tool": True,
    "--session-id": True,
    "--resume": True,
    "--resume-session-at": True,
    "--max-turns": True,
    "--max-budget-usd": True,
    "--agent": False,
    "--agents": False,
    "--append-system-prompt": False,
    "--append-system-prompt-file": False,
    "--autocompact": False,
    "--debug-file": False,
    "--effort": False,
    "--fallback-model": False,
    "--input-format": False,
    "--json-schema": True,
    "--max-thinking-tokens": False,
    "--name": False,
    "--output-format": False,
    "--permission-prompts": False,
    "--plugin-dir": False,
    "--plugin-url": False,
    "--setting-sources": False,
    "--settings": False,
    "--system-prompt": False,
    "--system-prompt-file": False,
    "--system-prompt-snapshot": False,
    "--thinking": False,
}
# Flags that take values up to the next flag.
_MANY = {"--add-dir", "--allowedTools", "--allowed-tools", "--betas", "--disallowedTools", "--disallowed-tools"} | {
    "--file",
    "--mcp-config",
    "--tools",
}
_SWITCH = {
    "--include-partial-messages",
    "--replay-user-messages",
    "--fork-session",
    "--continue",
    "--dangerously-skip-permissions",
    "--allow-dangerously-skip-permissions",
    "--no-session-persistence",
    "--version",
    "--print",
    "--verbose",
    "--bare",
    "--brief",
    "--disable-slash-commands",
    "--forward-subagent-text",
    "--include-hook-events",
    "--restricted",
    "--safe-mode",
    "--strict-mcp-config",
}
_SHORT = {"-p": "--print", "-v": "--version", "-c": "--continue", "-r": "--resume", "-n": "--name"}

MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")


class FlagError(Exception):
    """The real CLI refuses this command line too. Carries the message for stderr."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that the demo agent was started with."""

    model: str = DEFAULT_MODEL
    mode: str = "default"
    may_bypass: bool = False
    asks_host: bool = False
    """Permissions are requested over stdio; without it, calls that need an answer are refused."""
    partial: bool = False
    replay: bool = False
    session_id: str | None = None
    resume: str | None = None
    resume_at: str | None = None
    fork: bool = False
    latest: bool = False
    max_turns: int | None = None
    max_budget: float | None = None
    directories: tuple[str, ...] = ()
    structured: bool = False
    forwards_subagents: bool = False
    keeps_transcript: bool = True
    version: bool = False
    ignored: tuple[str, ...] = field(default=(), compare=False)


def parse_flags(argv: Sequence[str]) -> Options:
    """The options of a command line; FlagError for one the real CLI refuses."""
    seen: dict[str, Any] = {}
    words = list(argv)
    while words:
        flag = words.pop(0)
        if not flag.startswith("-") or flag == "-":
            continue  # a prompt as an argument: read from stdin only, as with --input-format stream-json
        flag, equals, value = flag.partition("=")
        flag = _SHORT.get(flag, flag)
        if flag in _VALUE:
            seen[flag] = value if equals else _next(flag, words)
        elif flag in _MANY:
            seen.setdefault(flag, []).extend([value] if equals else _values(words))
        elif flag in _SWITCH:
            seen[flag] = True
        else:
            raise FlagError(f"error: unknown option '{flag}'")
    return _options(seen)


def _next(flag: str, words: list[str]) -> str:
    if not words:
        raise FlagError(f"error: option '{flag} <value>' argument missing")
    return words.pop(0)


def _values(words: list[str]) -> list[str]:
    values = []
    while words and not words[0].startswith("-"):
        values.append(words.pop(0))
    return values


def _options(seen: dict[str, Any]) -> Options:
    skips = bool(seen.get("--dangerously-skip-permissions"))
    mode = seen.get("--permission-mode") or ("bypassPermissions" if skips else "default")
    if mode not in MODES:
        raise FlagError(
            f"error: option '--permission-mode <mode>' argument '{mode}' is invalid. "
            f"Allowed choices are {', '.join(MODES)}."
        )
    return Options(
        model=seen.get("--model") or DEFAULT_MODEL,
        mode=mode,
        may_bypass=skips or bool(seen.get("--allow-dangerously-skip-permissions")) or mode == "bypassPermissions",
        asks_host=seen.get("--permission-prompt-tool") == "stdio",
        partial=bool(seen.get("--include-partial-messages")),
        replay=bool(seen.get("--replay-user-messages")),
        session_id=seen.get("--session-id"),
        resume=seen.get("--resume"),
        resume_at=seen.get("--resume-session-at"),
        fork=bool(seen.get("--fork-session")),
        latest=bool(seen.get("--continue")),
        max_turns=_number(int, "--max-turns", seen),
        max_budget=_number(float, "--max-budget-usd", seen),
        directories=tuple(seen.get("--add-dir", ())),
        structured="--json-schema" in seen,
        forwards_subagents=bool(seen.get("--forward-subagent-text")),
        keeps_transcript=not seen.get("--no-session-persistence"),
        version=bool(seen.get("--version")),
        ignored=tuple(sorted(f for f in seen if _VALUE.get(f) is False)),
    )


def _number(kind: Any, flag: str, seen: dict[str, Any]) -> Any:
    if flag not in seen:
        return None
    try:
        return kind(seen[flag])
    except ValueError:
        raise FlagError(f"error: option '{flag}' argument '{seen[flag]}' is invalid.") from None
