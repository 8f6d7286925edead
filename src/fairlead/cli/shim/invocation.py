"""The arguments with which a program calls Claude Code: whether the shim can lend this run to the gateway. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from fairlead.model.ids import is_uuid

_ALONE: Final = frozenset({"--version", "-v", "--help", "-h", "--sdk-url"})
"""With one of these the CLI does something else than a conversation over its stdin and stdout."""

_SHORT: Final = {"-r": "--resume", "-c": "--continue"}
_BYPASS: Final = "--dangerously-skip-permissions"


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation over stream-json.

    `session` is the CLI's id of it, empty if only the CLI's first record will tell. `extra` are the arguments that the
    shim adds. `resumes`: the conversation exists already. `asks`: the caller answers permission requests."""

    arguments: tuple[str, ...]
    session: str
    extra: tuple[str, ...] = ()
    resumes: bool = False
    asks: bool = False
    echoes: bool = False
    """The caller wants its prompts back (--replay-user-messages)."""
    settings: dict[str, Any] = {}

    def command_line(self, more: Sequence[str] = ()) -> list[str]:
        """The CLI's arguments. Ours come last, but before `--`, after which the CLI takes everything as text."""
        given, added = list(self.arguments), [*self.extra, *more]
        at = given.index("--") if "--" in given else len(given)
        return [*given[:at], *added, *given[at:]]


def read_arguments(arguments: Sequence[str], new_id: str) -> Invocation | None:
    """The invocation, or None if the shim has nothing to do with it: the CLI then runs as if there were no shim.

    `new_id` is the id of the conversation if the arguments start a new one without naming it."""
    flags = list(_flags(arguments))
    names = {name for name, _ in flags}
    if names & _ALONE or not ({("--input-format", "stream-json"), ("--output-format", "stream-json")} <= {*flags}):
        return None
    values = dict(flags)
    forks, named = "--fork-session" in names, values.get("--session-id") or ""
    resumed = values.get("--resume")
    extra: tuple[str, ...] = ()
    if named:
        session = named if is_uuid(named) else ""
    elif forks or not names & {"--resume", "--continue"}:
        session, extra = new_id, (f"--session-id={new_id}",)
    else:
        session = resumed if resumed is not None and is_uuid(resumed) else ""
    return Invocation(
        arguments=tuple(arguments),
        session=session.lower(),
        extra=extra,
        resumes=bool(names & {"--resume", "--continue"}) and not forks,
        asks=values.get("--permission-prompt-tool") == "stdio",
        echoes="--replay-user-messages" in names,
        settings=_settings(flags),
    )


def split_wrapped(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command that a wrapper gets (`claude`, or `node cli.js`), and the CLI's own arguments after it."""
    options = [position for position, argument in enumerate(arguments) if argument.startswith("-")]
    end = max(1, options[0]) if options else len(arguments)
    return list(arguments[:end]), list(arguments[end:])


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Each option with the value that follows it, if one does."""
    for position, argument in enumerate(arguments):
        if argument == "--":
            return
        if not argument.startswith("-"):
            continue
        name, equals, value = argument.partition("=")
        following = arguments[position + 1] if position + 1 < len(arguments) else None
        if equals:
            yield name, value
        else:
            takes = following is not None and not following.startswith("-")
            yield _SHORT.get(name, name), following if takes else None


def _settings(flags: Sequence[tuple[str, str | None]]) -> dict[str, Any]:
    """The settings with which the gateway resumes the session when its caller is gone."""
    values = {name: value for name, value in flags if value is not None}
    names = {name for name, _ in flags}
    found: dict[str, Any] = {
        "mode": "bypassPermissions" if _BYPASS in names else values.get("--permission-mode"),
        "model": values.get("--model"),
        "effort": values.get("--effort"),
        "append_prompt": values.get("--append-system-prompt"),
        "directories": [value for name, value in flags if name == "--add-dir" and value],
        "partial": "--include-partial-messages" in names,
        "max_turns": _number(values.get("--max-turns"), int),
        "max_budget_usd": _number(values.get("--max-budget-usd"), float),
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def _number(text: str | None, kind: type[int] | type[float]) -> int | float | None:
    try:
        return None if text is None else kind(text)
    except ValueError:
        return None
