"""Which words start a program on a person's terminal, under which key it is found again, and how a command is typed
into a shell. Pure.

Rule: a program is an argument list from the settings; from a wire comes a key into them, and an id that is one whole
argument and never an option.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.model.errors import BadId, NotFound
from fairlead.terminals.api import ProgramRequest

SESSION: Final = "{session}"
"""In an argument of `resume`: the id of the conversation."""
_GROUPS: Final = dict.fromkeys(("bash", "sh", "dash", "ash", "zsh", "ksh", "mksh"), ("{ ", "}; exit")) | {
    "fish": ("begin; ", "end; exit")
}


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A program that a client may name. `resume`: its words when a conversation goes on; empty where it cannot."""

    command: tuple[str, ...]
    resume: tuple[str, ...] = ()


PROVIDERS: Final[Mapping[str, Provider]] = {
    "cursor": Provider(command=("cursor-agent",), resume=("cursor-agent", "--resume={session}")),
    "codex": Provider(command=("codex",), resume=("codex", "resume", "{session}")),
    "opencode": Provider(command=("opencode",), resume=("opencode", "--session", "{session}")),
}
"""Those that claudecodeui knows beside Claude, which is a session of ours."""


def words(providers: Mapping[str, Provider], wanted: ProgramRequest) -> tuple[str, ...]:
    """The whole argument list of the program that is wanted. NotFound, BadId."""
    provider = providers.get(wanted.provider)
    if provider is None:
        raise NotFound("configured program", wanted.provider)
    if not resumes(providers, wanted):
        return provider.command
    if wanted.session.startswith("-"):
        raise BadId("session", wanted.session)
    return tuple(word.replace(SESSION, wanted.session) for word in provider.resume)


def resumes(providers: Mapping[str, Provider], wanted: ProgramRequest) -> bool:
    """Whether it goes on with a conversation."""
    provider = providers.get(wanted.provider)
    return bool(wanted.resume and wanted.session and provider is not None and provider.resume)


def key(user: str, folder: str, wanted: ProgramRequest) -> str:
    """Two wishes with the same meet before the same program; `folder` with its links followed."""
    parts = [user, folder, wanted.session or None, wanted.provider, wanted.command]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def typed(program: str, command: str) -> bytes:
    """The keys for a command, after which the shell ends with the command's status. The shell reads the whole of it
    before it begins, so that nothing of it is read by what it starts. Shells that have no groups stay."""
    begin, end = _GROUPS.get(program.rpartition("/")[2], ("", ""))
    lines = [f"{begin}{command.rstrip()}", end] if end else [command.rstrip()]
    return "".join(f"{line}\r" for line in "\n".join(lines).splitlines()).encode()
