"""Data of a parsed shell line. Parsing is in `parser`, matching against rules in `rule_matching`."""

from enum import StrEnum

import msgspec


class ProblemKind(StrEnum):
    """Why the effect of a line, or of a part of it, cannot be determined from its text."""

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


UNKNOWABLE = frozenset(map(ProblemKind, ("too_long", "control", "parse", "lexing", "nesting", "dynamic_command")))
"""With one of these, not even a rule with exactly this text allows the line: the shell may run something else."""

OPEN = frozenset({ProblemKind.ASSIGNMENT, ProblemKind.DISGUISE})
"""With only these, all commands of the line are known, but not what they will do."""


class ParseProblem(msgspec.Struct, frozen=True):
    """A construct that an ordinary rule does not cover. `command` is the index of the command it belongs to, if any."""

    kind: ProblemKind
    text: str
    command: int | None = None


class Word(msgspec.Struct, frozen=True):
    """A word as the shell would read it.

    `value` is its text without quotes and escapes, None when it is known only at run time (expansions, globs,
    braces); `lead` is the part at the beginning that is certain. `tilde`: the word begins with an unquoted `~`.
    """

    raw: str
    value: str | None
    lead: str
    tilde: bool = False


class Assignment(msgspec.Struct, frozen=True):
    """An assignment to a variable. `value` is the whole word, `NAME=text`."""

    name: str
    value: Word


class LoopVariable(msgspec.Struct, frozen=True):
    """The variable of a loop, `for NAME in WORDS`, and its values. Without words its values are not known."""

    name: str
    words: tuple[Word, ...]


class SimpleCommand(msgspec.Struct, frozen=True):
    """One command with its words. `raw` is its text without redirections.

    For a command inside another one (`env ls`, `sh -c ls`), `within` is the index of the outer command; a rule that
    names at least `named` words of the outer command covers this one too.
    `least`: how many words a rule must name at least to cover this command (2 for `bash script.sh`).
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
    """A redirection to or from a file (copies of descriptors such as `2>&1` do not count)."""

    operator: str
    target: Word
    writes: bool


class ShellAnalysis(msgspec.Struct, frozen=True):
    """Everything that a line would do, as far as its text shows. Inner commands come after their outer command.

    `assignments` are those without a command; the others belong to their command.
    """

    raw: str
    commands: tuple[SimpleCommand, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    problems: tuple[ParseProblem, ...] = ()
    loop_variables: tuple[LoopVariable, ...] = ()

    @property
    def all_assignments(self) -> tuple[Assignment, ...]:
        return (*self.assignments, *(each for command in self.commands for each in command.assignments))

    @property
    def knowable(self) -> bool:
        return not any(problem.kind in UNKNOWABLE for problem in self.problems)
