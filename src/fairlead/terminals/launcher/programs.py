"""The argument list of a program on a user's terminal, the key by which it is found again, and how a command is typed
into a shell. Pure.

Rule: a program is an argument list from the settings; the wire provides only a key into them, and an id that is one
whole argument and never an option.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.model.errors import BadId, NotFound
from fairlead.terminals.api import ProgramRequest

SESSION: Final = "{session}"
"""Placeholder for the conversation's id in an argument of `resume`."""
_GROUPS: Final = dict.fromkeys(("bash", "sh", "dash", "ash", "zsh", "ksh", "mksh"), ("{ ", "}; exit")) | {
    "fish": ("begin; ", "end; exit")
}


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A program that a client may name. `resume` is the command that continues a conversation; empty if it cannot."""

    command: tuple[str, ...]
    resume: tuple[str, ...] = ()


PROVIDERS: Final[Mapping[str, Provider]] = {
    "cursor": Provider(command=("cursor-agent",), resume=("cursor-agent", "--resume={session}")),
    "codex": Provider(command=("codex",), resume=("codex", "resume", "{session}")),
    "opencode": Provider(command=("opencode",), resume=("opencode", "--session", "{session}")),
}
"""The programs that front ends know, other than agents that run as sessions of the gateway."""


def words(providers: Mapping[str, Provider], wanted: ProgramRequest) -> tuple[str, ...]:
    """The whole argument list of the requested program. Raises NotFound, BadId."""
    provider = providers.get(wanted.provider)
    if provider is None:
        raise NotFound("configured program", wanted.provider)
    if not resumes(providers, wanted):
        return provider.command
    if wanted.session.startswith("-"):
        raise BadId("session", wanted.session)
    return tuple(word.replace(SESSION, wanted.session) for word in provider.resume)


def resumes(providers: Mapping[str, Provider], wanted: ProgramRequest) -> bool:
    """Whether the program continues a conversation."""
    provider = providers.get(wanted.provider)
    return bool(wanted.resume and wanted.session and provider is not None and provider.resume)


def key(user: str, folder: str, wanted: ProgramRequest) -> str:
    """Requests with the same key attach to the same program; `folder` has its links resolved."""
    parts = [user, folder, wanted.session or None, wanted.provider, wanted.command]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def command_keys(program: str, command: str) -> bytes:
    """The keys for a command, after which the shell exits with the command's status. The shell reads the whole input
    before it runs the command, so that the command cannot read any of it. Shells without groups stay open."""
    begin, end = _GROUPS.get(program.rpartition("/")[2], ("", ""))
    lines = [f"{begin}{command.rstrip()}", end] if end else [command.rstrip()]
    return "".join(f"{line}\r" for line in "\n".join(lines).splitlines()).encode()
