"""Commands that run other commands, and the inner commands as far as they follow from the words. Tables, then a reader.

A name that is in none of these tables is an ordinary command: `python -c ...` is just python, and a rule that allows
`python:*` allows all of it. An option that a table does not list makes the wrapper opaque: a person is asked.
"""

import re
from collections.abc import Sequence

import msgspec

from fairlead.sessions.permissions.name_sets import names
from fairlead.sessions.permissions.shell.line import ProblemKind, Word


class Wrapper(msgspec.Struct, frozen=True):
    """How to find the inner command after the wrapper's own words."""

    flags: str = ""  # short options without a value, one character each
    valued: str = ""  # short options with a value
    long_flags: str = ""  # names with their dashes, separated by spaces
    long_valued: str = ""
    operands: int = 0  # operands of the wrapper between its options and the command
    assignments: bool = False  # takes NAME=value words before the command
    shell: bool = False  # joins the remaining words and passes them to a shell
    feeds: bool = False  # appends words from another source to the command


WRAPPERS: dict[str, Wrapper] = {
    "command": Wrapper("p"),
    "builtin": Wrapper(),
    "exec": Wrapper("cl", "a"),
    "nohup": Wrapper(),
    "-": Wrapper(),  # zsh: runs the command with a dash before its name; env: with an empty environment
    "noglob": Wrapper(),
    "nocorrect": Wrapper(),
    "busybox": Wrapper(),
    "time": Wrapper("p"),
    "nice": Wrapper("0123456789", "n", "", "--adjustment"),
    "ionice": Wrapper("t", "cn", "", "--class --classdata"),
    "setsid": Wrapper("cfw", "", "--ctty --fork --wait"),
    "stdbuf": Wrapper("", "ioe", "", "--input --output --error"),
    "timeout": Wrapper("v", "ks", "--foreground --preserve-status --verbose", "--kill-after --signal", operands=1),
    "env": Wrapper("i0", "u", "--ignore-environment --null", "--unset", assignments=True),
    "sudo": Wrapper("nHkbSA", "ugp", "--non-interactive --set-home", "--user --group", assignments=True),
    "doas": Wrapper("n", "u"),
    "watch": Wrapper("bcdegptw", "n", "--beep --color --errexit --no-title --precise", "--interval", shell=True),
    "xargs": Wrapper(
        "0rtpx",
        "nLPIsdEa",
        "--null --no-run-if-empty --verbose --interactive --exit",
        "--max-args --max-lines --max-procs --max-chars --delimiter --arg-file --replace",
        feeds=True,
    ),
}

SHELLS = names("sh bash zsh dash ksh mksh ash rbash fish csh tcsh")

# They run commands elsewhere (another machine, another root), later, or as another user. Their words are not analysed.
OPAQUE = names(
    "parallel ssh script su runuser pkexec run0 chroot unshare nsenter flock strace ltrace systemd-run at batch "
    "crontab entr expect unbuffer coproc toybox start-stop-daemon chrt taskset numactl setpriv capsh bwrap firejail "
    "proxychains torsocks faketime catchsegv valgrind gdb rlwrap dbus-run-session xvfb-run screen tmux"
)

# Builtins that change the meaning of later words, or evaluate their own words again (subscripts can run commands).
EVALUATING = names(
    "alias unalias shopt enable hash bind complete compgen compopt mapfile readarray read let getopts unset declare "
    "typeset local readonly export fc history setopt unsetopt zmodload autoload functions zstyle emulate sched zle "
    "vared print repeat always fg bg disown suspend caller"
)

# Reserved words. As a command name they show that the grammar and the shell read the line differently.
RESERVED = names(
    "if then elif else fi for while until do done case esac select function in { } ! [[ ]] coproc end foreach"
)

_MATHS = names("printf test [ wait exit return break continue shift logout kill")
_SET_WORDS = re.compile(r"-[eux]*o?|pipefail|errexit|nounset|xtrace")
_FIND_EXECS = names("-exec -execdir -ok -okdir")
_FIND_WRITES = names("-fprint -fprint0 -fprintf -fls")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")

UNKNOWN_WORD = Word("…", None, "")
"""A word from another source: the input of xargs, or a path that find found."""

FOUND_WORD = Word("{}", None, "")
"""The operand of `find -delete`: names below the starting folder, links not followed."""


class Inner(msgspec.Struct, frozen=True):
    """An inner command: its words, or shell text that is still to be parsed.

    `named`: the number of outer words that a rule must name to cover this command too.
    """

    words: tuple[Word, ...] = ()
    code: str | None = None
    named: int = 0


class Unwrapped(msgspec.Struct, frozen=True):
    """The inner commands of one command. `trouble` explains why they cannot be determined."""

    inner: tuple[Inner, ...] = ()
    assignments: tuple[str, ...] = ()
    writes: tuple[Word, ...] = ()
    trouble: tuple[ProblemKind, str] | None = None
    least: int = 1
    transparent: bool = False


def base_name(name: str) -> str:
    return name.rpartition("/")[2]


def unwrap(words: Sequence[Word]) -> Unwrapped:
    """Return the inner commands of the command with these words; the value of the first word must be known."""
    full = words[0].value or ""
    name = base_name(full)
    if name in WRAPPERS:
        return _unwrap_by_table(name, WRAPPERS[name], words)
    if name in SHELLS:
        return _unwrap_shell(name, words)
    if name == "find":
        return _unwrap_find(words)
    if name == "eval":
        return _code(words[1:], len(words))
    if name in (".", "source"):
        return _hides(name) if len(words) < 2 or words[1].value is None else Unwrapped(least=2)
    if name == "trap":
        return _unwrap_trap(words)
    if name in OPAQUE:
        return _hides(name)
    if name in EVALUATING or _evaluates(name, words):
        return Unwrapped(trouble=(ProblemKind.BUILTIN, f"{name} can change what later words mean or evaluate its own"))
    return Unwrapped()


def _hides(name: str) -> Unwrapped:
    return Unwrapped(trouble=(ProblemKind.WRAPPER, f"what {name} would run cannot be known from its words"))


def _evaluates(name: str, words: Sequence[Word]) -> bool:
    """Return whether a builtin that is harmless without certain options has one of them, or a word that may be one."""
    if name == "set":
        return any(word.value is None or not _SET_WORDS.fullmatch(word.value) for word in words[1:])
    if name not in _MATHS:
        return False
    # zsh evaluates numbers as arithmetic, and arithmetic runs commands in subscripts.
    if any("$" in word.value or "`" in word.value for word in words[1:] if word.value is not None):
        return True
    if name == "printf":
        return len(words) > 1 and (words[1].value is None or words[1].value.startswith("-v"))
    if name == "wait":
        return any(word.value is None or word.value.startswith("-") for word in words[1:])
    return any(word.value in ("-v", "-R") for word in words[1:])


def _code(words: Sequence[Word], named: int) -> Unwrapped:
    """Return the words, joined by spaces, as shell text: a shell parses them again."""
    known = [word.value for word in words if word.value is not None and not word.tilde]
    if len(known) < len(words):
        return _hides("a shell that reads its words again")
    return Unwrapped(inner=(Inner(code=" ".join(known), named=named),)) if words else Unwrapped()


def _unwrap_by_table(name: str, wrapper: Wrapper, words: Sequence[Word]) -> Unwrapped:
    if name == "command" and len(words) > 1 and words[1].value in ("-v", "-V"):
        return Unwrapped()
    at = _skip_options(wrapper, words)
    if at is None:
        return _hides(name)
    placeholder = _placeholder(words[:at]) if name == "xargs" else None
    names: list[str] = []
    while wrapper.assignments and at < len(words) and (match := _ASSIGNMENT.match(words[at].lead)):
        names.append(match[1])
        at += 1
    at += wrapper.operands
    transparent = name == "time" and words[0].raw == "time"
    if at >= len(words):
        # Without a command xargs runs echo, and the others print something or do nothing.
        return Unwrapped(assignments=tuple(names), transparent=transparent)
    if wrapper.shell:
        return _code(words[at:], len(words))
    inner = tuple(words[at:])
    if placeholder is not None:
        inner = tuple(UNKNOWN_WORD if placeholder in word.raw else word for word in inner)
    elif wrapper.feeds:
        inner = (*inner, UNKNOWN_WORD)
    return Unwrapped(inner=(Inner(inner, named=at + 1),), assignments=tuple(names), transparent=transparent)


def _skip_options(wrapper: Wrapper, words: Sequence[Word]) -> int | None:
    """Return the index of the first word after the options; None when an option is not in the table or not known."""
    at = 1
    while at < len(words):
        value = words[at].value
        if value is None:
            return None
        if value == "--":
            return at + 1
        if not value.startswith("-") or value == "-":
            return at
        if value.startswith("--"):
            name, has_value, _ = value.partition("=")
            if name in wrapper.long_valued.split():
                at += 1 if has_value else 2
            elif value in wrapper.long_flags.split():
                at += 1
            else:
                return None
            continue
        rest = value[1:].lstrip(wrapper.flags)
        if not rest:
            at += 1
        elif rest[0] in wrapper.valued:
            at += 2 if len(rest) == 1 else 1
        else:
            return None
    return at


def _placeholder(options: Sequence[Word]) -> str | None:
    """Return the text that xargs replaces in the command's words, if its options set one."""
    values = [word.value or "" for word in options]
    for index, value in enumerate(values):
        if value == "-I":
            return (values[index + 1 : index + 2] or ["{}"])[0] or "{}"
        if value.startswith("-I"):
            return value[2:]
        if value.startswith("--replace"):
            return value.partition("=")[2] or "{}"
    return None


def _unwrap_shell(name: str, words: Sequence[Word]) -> Unwrapped:
    """Parse TEXT of `bash -c TEXT`. `bash FILE` is known by its file name; any other form reads standard input."""
    for at, word in enumerate(words[1:], 1):
        value = word.value
        if value is None:
            return _hides(name)
        if not value.startswith("-"):
            return Unwrapped(least=at + 1)
        if re.fullmatch(r"-[lexu]*c", value):
            code = words[at + 1].value if at + 1 < len(words) else None
            return _hides(name) if code is None else Unwrapped(inner=(Inner(code=code, named=at + 2),))
        if not re.fullmatch(r"-[lexun]+", value):
            return _hides(name) if value not in ("--version", "--help") else Unwrapped()
    return _hides(name)


def _unwrap_find(words: Sequence[Word]) -> Unwrapped:
    inner: list[Inner] = []
    writes: list[Word] = []
    at = 1
    while at < len(words):
        word = words[at]
        if word.value in _FIND_EXECS:
            end = next((i for i in range(at + 1, len(words)) if words[i].value in (";", "+")), None)
            if end is None or end == at + 1:
                return _hides("find")
            hidden = tuple(UNKNOWN_WORD if "{}" in each.raw else each for each in words[at + 1 : end])
            inner.append(Inner(hidden, named=end))
            at = end
        elif word.value == "-delete":
            inner.append(Inner((Word("rm", "rm", "rm"), FOUND_WORD), named=at + 1))
        elif word.value in _FIND_WRITES:
            at += 1
            writes.append(words[at] if at < len(words) else UNKNOWN_WORD)
        elif word.value is None and (not word.lead or word.lead[0] == "-"):
            return _hides("find")  # it could expand to -exec
        at += 1
    return Unwrapped(inner=tuple(inner), writes=tuple(writes))


def _unwrap_trap(words: Sequence[Word]) -> Unwrapped:
    if len(words) < 2 or words[1].value in ("-l", "-p", "-"):
        return Unwrapped()
    if words[1].value is None or words[1].value.startswith("-"):
        return _hides("trap")
    return Unwrapped(inner=(Inner(code=words[1].value, named=2),))
