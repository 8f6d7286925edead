"""Reasons to ask about a shell line although rules name all of its commands: its paths and its options. Pure.

A rule such as `Bash(cat:*)` is meant for files of the project. A person decides about words that are known only at run
time, about access to the gateway's own folders, to /proc or to the gateway's port, and about files written in addition.
"""

import unicodedata
from collections.abc import Callable, Sequence
from math import inf

from fairlead.sessions.permissions.name_sets import names
from fairlead.sessions.permissions.policy.call import PolicyContext
from fairlead.sessions.permissions.policy.fence import ABOVE, COMMON_PORTS, closed_folders, names_number
from fairlead.sessions.permissions.policy.paths import in_processes, inside, inside_any
from fairlead.sessions.permissions.shell import program_options
from fairlead.sessions.permissions.shell.line import SimpleCommand
from fairlead.sessions.permissions.shell.resolution import MOVES, PLAIN, Argument, ResolvedLine
from fairlead.sessions.permissions.shell.wrappers import SHELLS, WRAPPERS, base_name

_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})

# Which programs descend into folders: always, with these options, or never. For other programs it is not known.
_RECURSIVE = names("find du rg ag ack fd fdfind tree tar zip rsync scp 7z cpio")
_RECURSIVE_WITH = {
    "ls": ("R", names("--recursive")),
    **dict.fromkeys(("grep", "egrep", "fgrep"), ("rRd", names("--recursive --dereference-recursive --directories"))),
    **dict.fromkeys(("diff", "cp", "rm", "chmod", "chown", "chgrp"), ("rRa", names("--recursive --archive"))),
}
_FLAT = (
    program_options.READERS
    | PLAIN
    | MOVES
    | names("sort uniq sed awk gawk mawk mkdir rmdir touch file jq tee xxd od git")
)
# They write nothing themselves; the commands that they run are listed separately.
_LOOKING = names(
    "find rg fd ag ack tree sort uniq sed awk gawk mawk jq file md5sum sha1sum sha256sum xxd od hexdump strings"
)
_MOST_FOLDERS = 32
_BARE_REPOSITORY = frozenset({"HEAD", "objects", "refs"})

MayWrite = Callable[[tuple[str, ...]], str | None]
"""Returns why a file at these places may not be written, or None."""


def line_risk(
    followed: ResolvedLine, context: PolicyContext, named: Sequence[float], may_write: MayWrite
) -> str | None:
    """Return the first reason to ask. `named`: for each command how many of its words a rule names."""
    if followed.incomplete is not None:
        return followed.incomplete
    closed = closed_folders(context)
    for command, arguments, count in zip(followed.analysis.commands, followed.commands, named, strict=True):
        reason = (
            _unknown(command, arguments)
            or _above(command, arguments, followed, closed)
            or _options(arguments, count)
            or _port(command, arguments, context)
            or _protected(command, arguments, count, context)
            or _repository(command, arguments, followed, context)
        )
        if reason is not None:
            return reason
    for argument in followed.arguments():
        if any(in_processes(place) for place in argument.places) and not _is_device(argument):
            return f"{argument.word.raw[:80]!r} belongs to running processes"
    return _redirections(followed, may_write)


def _unknown(command: SimpleCommand, arguments: Sequence[Argument]) -> str | None:
    name = command.name or ""
    if name in PLAIN or base_name(name) in WRAPPERS:
        return None
    found = next((argument for argument in arguments if argument.values is None), None)
    return None if found is None else f"what {found.word.raw[:80]!r} will be is not known before it runs"


def _above(
    command: SimpleCommand, arguments: Sequence[Argument], followed: ResolvedLine, closed: tuple[str, ...]
) -> str | None:
    """Check for a program that descends from above a closed folder and so would read it."""
    name = base_name(command.name or "")
    recursive = _is_recursive(name, arguments)
    if recursive is False:
        return None
    places = [place for argument in arguments[1:] for place in argument.places]
    if recursive:
        places.extend(followed.folders)
    return ABOVE if any(inside(folder, place) for folder in closed for place in places) else None


def _is_recursive(name: str, arguments: Sequence[Argument]) -> bool | None:
    """Return whether the program descends into folders; None when that is not known."""
    if name in _RECURSIVE:
        return True
    if name in _RECURSIVE_WITH:
        flags, long = _RECURSIVE_WITH[name]
        values = [value for argument in arguments for value in argument.values or () if value.startswith("-")]
        return any(
            any(each.startswith(value.partition("=")[0]) for each in long)
            if value.startswith("--")
            else any(flag in flags for flag in value)
            for value in values
        )
    return False if name in _FLAT or name in WRAPPERS or name in SHELLS else None


def _options(arguments: Sequence[Argument], count: float) -> str | None:
    words = [argument.values or () for argument in arguments]
    return None if count == inf else program_options.option_risk(words, int(count))


def _port(command: SimpleCommand, arguments: Sequence[Argument], context: PolicyContext) -> str | None:
    """Check for a number that may be one of the gateway's ports, in a program that may open connections."""
    name = base_name(command.name or "")
    ports = [port for port in context.fences.ports if port not in COMMON_PORTS]
    if name in program_options.READERS or name in PLAIN or name in _LOOKING or not ports:
        return None
    for argument in arguments[1:]:
        for value in argument.values or ():
            if names_number(unicodedata.normalize("NFKC", value), ports):
                return f"{argument.word.raw[:80]!r} may be the gateway's own port"
    return None


def _protected(
    command: SimpleCommand, arguments: Sequence[Argument], count: float, context: PolicyContext
) -> str | None:
    name = base_name(command.name or "")
    reader = program_options.reader_name([word.value for word in command.words])
    if reader is not None or name in PLAIN | MOVES | _LOOKING | SHELLS or name in WRAPPERS:
        return None
    for at, argument in enumerate(arguments):
        if at >= max(count, 1) and any(context.is_protected(place) for place in argument.places):
            return f"{argument.word.raw[:80]!r} makes programs run things, and {name} may write it"
    return None


def _repository(
    command: SimpleCommand, arguments: Sequence[Argument], followed: ResolvedLine, context: PolicyContext
) -> str | None:
    """Check for folders that look like a bare repository: git trusts their settings and runs the programs they name."""
    if base_name(command.name or "") != "git":
        return None
    named = [place for argument in arguments[1:] for place in argument.places][:_MOST_FOLDERS]
    for folder in dict.fromkeys((*followed.folders, *named)):
        here = folder
        while here != "/" and (folder in followed.folders or here == folder):
            try:
                found = set(context.entries(here))
            except OSError:
                found = set()
            if ".git" in found:
                break
            if found >= _BARE_REPOSITORY:
                return f"{here[:80]!r} looks like a repository with unknown settings"
            here = here.rpartition("/")[0] or "/"
    return None


def _is_device(argument: Argument) -> bool:
    return argument.values is not None and all(value in _DEVICES for value in argument.values)


def _redirections(followed: ResolvedLine, may_write: MayWrite) -> str | None:
    for redirection, argument in zip(followed.analysis.redirections, followed.targets, strict=True):
        raw = redirection.target.raw[:80]
        if argument.values is None or (argument.values and not argument.places):
            return f"where {raw!r} leads is not known"
        if not argument.values or _is_device(argument):
            continue
        if any(inside_any(place, ("/dev", "/proc")) for place in argument.places):
            return f"{raw!r} is a device"
        if redirection.writes:
            reason = may_write(argument.places)
            if reason is not None:
                return f"it would write {raw!r}: {reason}"
    return None
