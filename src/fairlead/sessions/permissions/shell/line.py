"""What a shell line is made of, once read. Data only: reading is in shell.py, judging in shell_rules.py."""

from enum import StrEnum

import msgspec


class ProblemKind(StrEnum):
    """Why a line, or a part of it, cannot be known from its text."""

    TOO_LONG = "too_long"
    CONTROL = "control"
    PARSE = "parse"
    LEXING = "lexing"
    NESTING = "nesting"
    DYNAMIC_COMMAND = "dynamic_command"
    EXPANSION = "expansion"
    FUNCTION = "function"
    BUILTIN = "builtin"
    WRAPPER = "wrapper"
    ASSIGNMENT = "assignment"
    DISGUISE = "disguise"


UNKNOWABLE = frozenset(
    {
        ProblemKind.TOO_LONG,
        ProblemKind.CONTROL,
        ProblemKind.PARSE,
        ProblemKind.LEXING,
        ProblemKind.NESTING,
        ProblemKind.DYNAMIC_COMMAND,
    }
)
"""With one of these not even a rule for the very same text allows: what would run is not what the text says."""

OPEN = frozenset({ProblemKind.ASSIGNMENT, ProblemKind.DISGUISE})
"""These hide no command: all the commands of the line are known, only not what they will do."""


class ParseProblem(msgspec.Struct, frozen=True):
    """One thing that a rule cannot vouch for. `command` is the index of the command it belongs to, if one."""

    kind: ProblemKind
    text: str
    command: int | None = None


class Word(msgspec.Struct, frozen=True):
    """A word as the shell would see it.

    `value` is its text without quotes and escapes, None when only running it would tell (expansions, globs,
    braces); `lead` is the text that it begins with for certain. `tilde`: it begins with an unquoted `~`.
    """

    raw: str
    value: str | None
    lead: str
    tilde: bool = False


class Assignment(msgspec.Struct, frozen=True):
    """`value` is the whole word, `NAME=text`."""

    name: str
    value: Word


class CommandCount(msgspec.Struct, frozen=True):
    """`for NAME in WORDS`: what a variable is set to by a loop. Without words: to what is not known."""

    name: str
    words: tuple[Word, ...]


class SimpleCommand(msgspec.Struct, frozen=True):
    """One command with its words. `raw` is its text without redirections.

    A command hidden in another one (`env ls`, `sh -c ls`) names that one by its index, `within`; a rule that
    names at least `named` words of the outer one has seen this one and speaks for it too.
    `least`: how many words a rule must name at least to speak for this command (2 for `bash script.sh`).
    """

    words: tuple[Word, ...]
    raw: str
    assignments: tuple[Assignment, ...] = ()
    within: int | None = None
    named: int = 0
    least: int = 1

    @property
    def name(self) -> str | None:
        return self.words[0].value if self.words else None


class Redirection(msgspec.Struct, frozen=True):
    """A redirection to or from a file (copies of descriptors such as `2>&1` are none)."""

    operator: str
    target: Word
    writes: bool


class ShellAnalysis(msgspec.Struct, frozen=True):
    """All that a line would do, as far as its text tells. Hidden commands stand after the one that hides them.

    `assignments` are those that stand alone; the others belong to their command.
    """

    raw: str
    commands: tuple[SimpleCommand, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    problems: tuple[ParseProblem, ...] = ()
    counted: tuple[CommandCount, ...] = ()

    @property
    def knowable(self) -> bool:
        return not any(problem.kind in UNKNOWABLE for problem in self.problems)
