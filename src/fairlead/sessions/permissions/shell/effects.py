"""Collector for the effects of a line during parsing: commands (hidden ones too), redirections, problems. Pure."""

from collections.abc import Callable

import msgspec

from fairlead.sessions.permissions.shell.grammar import MAX_UNWRAP, is_harmless_variable
from fairlead.sessions.permissions.shell.line import (
    Assignment,
    LoopVariable,
    ParseProblem,
    ProblemKind,
    Redirection,
    ShellAnalysis,
    SimpleCommand,
    Word,
)
from fairlead.sessions.permissions.shell.wrappers import RESERVED, unwrap


class LineEffects:
    """Collects the findings of the parser and unwraps commands; `read` parses shell text inside a word."""

    def __init__(self, read: Callable[[str], ShellAnalysis]) -> None:
        self._read = read
        self.commands: list[SimpleCommand] = []
        self.redirections: list[Redirection] = []
        self.assignments: list[Assignment] = []
        self.problems: list[ParseProblem] = []
        self.loop_variables: list[LoopVariable] = []

    def analysis(self, raw: str) -> ShellAnalysis:
        return ShellAnalysis(
            raw,
            tuple(self.commands),
            tuple(self.redirections),
            tuple(self.assignments),
            tuple(self.problems),
            tuple(self.loop_variables),
        )

    def problem(self, kind: ProblemKind, text: str, command: int | None = None) -> None:
        self.problems.append(ParseProblem(kind, text, command))

    def variable(self, name: str, *, exported: bool) -> None:
        """Note that a variable gets a value; `exported`: programs see it in their environment."""
        if not is_harmless_variable(name, exported=exported):
            self.problem(ProblemKind.ASSIGNMENT, f"the variable {name[:80]} can change what programs do")

    def check_assigned_text(self, word: Word) -> None:
        """Note that a variable gets this text: arithmetic and subscripts run commands in it when they evaluate it."""
        if word.value is not None and ("$" in word.value or "`" in word.value):
            self.problem(ProblemKind.EXPANSION, f"the text {word.raw[:80]!r} could be run when it is read again")

    def redirection(self, operator: str, target: Word) -> None:
        if operator == "<<<" or (operator in (">&", "<&") and _is_descriptor(target.value or "")):
            return
        self.redirections.append(Redirection(operator, target, writes=operator not in ("<", "<&")))

    def command(
        self,
        words: tuple[Word, ...],
        assignments: tuple[Assignment, ...],
        raw: str,
        within: int | None = None,
        named: int = 0,
        nested: int = 0,
    ) -> None:
        """Add a command and its inner commands."""
        index = len(self.commands)
        name = words[0].value
        if name is None or words[0].tilde or name in RESERVED:
            self.commands.append(SimpleCommand(words, raw, assignments, within, named))
            self.problem(ProblemKind.DYNAMIC_COMMAND, f"which command {words[0].raw[:80]!r} is cannot be known", index)
            return
        if words[0].raw != name:
            self.problem(ProblemKind.DISGUISE, f"the command {name[:80]!r} is written as {words[0].raw[:80]!r}", index)
        hidden = unwrap(words)
        outer = within
        if not hidden.transparent:
            self.commands.append(SimpleCommand(words, raw, assignments, within, named, hidden.least))
            outer = index
        if hidden.trouble is not None:
            self.problem(hidden.trouble[0], hidden.trouble[1], index)
        for variable in hidden.assignments:
            self.variable(variable, exported=True)
        for target in hidden.writes:
            self.redirection(">", target)
        for inner in hidden.inner:
            if inner.code is not None:
                self._code(inner.code, index, inner.named)
            elif nested >= MAX_UNWRAP:
                self.problem(ProblemKind.NESTING, "too many commands are hidden in one another")
            else:
                count = named if hidden.transparent else inner.named
                text = " ".join(word.raw for word in inner.words)
                self.command(inner.words, (), text, outer, count, nested + 1)

    def _code(self, code: str, within: int, named: int) -> None:
        """Add shell text inside a word: it is parsed as a separate line, whose commands belong to the outer command."""
        inner = self._read(code)
        base = len(self.commands)
        for command in inner.commands:
            outer, count = (within, named) if command.within is None else (command.within + base, command.named)
            self.commands.append(msgspec.structs.replace(command, within=outer, named=count))
        self.redirections.extend(inner.redirections)
        self.assignments.extend(inner.assignments)
        self.loop_variables.extend(inner.loop_variables)
        for problem in inner.problems:
            index = within if problem.command is None else problem.command + base
            self.problem(problem.kind, problem.text, index)


def _is_descriptor(target: str) -> bool:
    """Return whether a target is a descriptor (`2>&1`, `2>&1-`, `2>&-`), not a file. Only ASCII digits count."""
    return target.isascii() and (target == "-" or target.removesuffix("-").isdecimal())
