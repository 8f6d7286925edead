"""Rules for shell commands: how far a rule's words reach into a parsed line. Pure.

Content is `words:*` (the command begins with these words, each a whole word) or `words` (exactly this command);
a `*` at the end of a word stands for the rest of that word. A text of several commands matches only as a whole.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import inf

import msgspec

from fairlead.sessions.permissions.shell.line import OPEN, UNKNOWABLE, ParseProblem, ShellAnalysis, SimpleCommand, Word
from fairlead.sessions.permissions.shell.parser import analyse
from fairlead.sessions.permissions.shell.wrappers import base_name

ANYTHING = "*"


class PatternWord(msgspec.Struct, frozen=True):
    text: str
    open_end: bool

    def matches(self, word: Word) -> bool:
        if word.value is None:
            return False
        return word.value.startswith(self.text) if self.open_end else word.value == self.text

    def may_match(self, word: Word) -> bool:
        """Whether the word could turn out to match once it is expanded."""
        if word.value is not None:
            return self.matches(word)
        return self.text.startswith(word.lead) or (self.open_end and word.lead.startswith(self.text))


class ShellPattern(msgspec.Struct, frozen=True):
    """The content of a Bash rule, read. Without `words` it can only equal the whole line."""

    text: str
    words: tuple[PatternWord, ...]
    prefix: bool

    def reach(self, command: SimpleCommand) -> float:
        """How many words of the command this rule names: 0 when it does not match, infinite when it names all."""
        words = command.words
        if not self.words or len(words) < len(self.words) or (not self.prefix and len(words) > len(self.words)):
            return 0
        if not all(pattern.matches(word) for pattern, word in zip(self.words, words, strict=False)):
            return 0
        return len(self.words) if self.prefix else inf

    def refuses(self, command: SimpleCommand) -> bool:
        """Matching for refusal: `/bin/rm` is rm too."""
        if self.reach(command) > 0:
            return True
        name = command.name
        if not self.words or name is None or "/" not in name:
            return False
        plain = base_name(name)
        return self.reach(SimpleCommand((Word(plain, plain, plain), *command.words[1:]), command.raw)) > 0

    def may_refuse(self, command: SimpleCommand) -> bool:
        """Whether the command could be what the rule refuses: unknown words, or options between the named ones."""
        if not self.words or not command.words:
            return False
        first = command.words[0]
        plain = Word(first.raw, base_name(first.value), base_name(first.value)) if first.value else first
        if not self.words[0].may_match(plain):
            return False
        rest = iter(command.words[1:])
        for pattern in self.words[1:]:
            for word in rest:
                if word.value is None and pattern.may_match(word):
                    return True  # it can become several words, and so all that the rule still names
                if pattern.matches(word):
                    break
            else:
                return False
        return True


@lru_cache(maxsize=512)
def shell_pattern(content: str) -> ShellPattern:
    """Read the content of a Bash rule. Never raises; `problem_with` says what a person should correct."""
    prefix = content.endswith(":*")
    text = content[:-2] if prefix else content
    return ShellPattern(content.strip(), _pattern_words(text), prefix)


def _pattern_words(text: str) -> tuple[PatternWord, ...]:
    analysis = analyse(text)
    if not analysis.knowable or analysis.redirections or not analysis.commands:
        return ()
    first, rest = analysis.commands[0], analysis.commands[1:]
    if first.assignments or any(command.within is None for command in rest):
        return ()
    out: list[PatternWord] = []
    for word in first.words:
        if word.value is not None:
            out.append(PatternWord(word.value, False))
        elif word.raw == word.lead + "*":
            out.append(PatternWord(word.lead, True))
        else:
            return ()
    return tuple(out)


def problem_with(content: str) -> str | None:
    """Why the content of a Bash rule would not do what it says, in words for a person; None when it would."""
    pattern = shell_pattern(content)
    if content == ANYTHING or pattern.words:
        return None
    if pattern.prefix:
        return "must name one plain command before its :*, for example Bash(git status:*)"
    return None if analyse(content).knowable else "is not a shell command that can be understood"


class Coverage(msgspec.Struct, frozen=True):
    """What the allow rules leave of a line: nothing, or the first thing that they do not speak for.

    `named`: for each command how many of its words the rules name; `whole`: a rule is the very text of the line.
    """

    missing: str | None
    used: tuple[int, ...] = ()
    named: tuple[float, ...] = ()
    whole: bool = False


def coverage(analysis: ShellAnalysis, patterns: Sequence[ShellPattern]) -> Coverage:
    """Whether these allow rules speak for all of a line, redirections apart; `used` are the rules that did."""
    whole = [i for i, p in enumerate(patterns) if not p.prefix and p.text == analysis.raw.strip()]
    if whole and analysis.knowable:
        return Coverage(None, (whole[0],), (inf,) * len(analysis.commands), whole=True)
    reaches: list[float] = []
    used: list[int] = []
    for command in analysis.commands:
        best, by = _best_reach(command, patterns)
        if command.within is not None:
            best = max(best, reaches[command.within] - command.named + 1)
        reaches.append(best)
        if best < command.least:
            return Coverage(f"no rule allows {command.raw[:120]!r}")
        if by is not None:
            used.append(by)
    for problem in analysis.problems:
        if not _vouched(problem, reaches):
            return Coverage(problem.text)
    if not used:
        return Coverage("no rule speaks about it")
    return Coverage(None, tuple(dict.fromkeys(used)), tuple(reaches))


def _best_reach(command: SimpleCommand, patterns: Sequence[ShellPattern]) -> tuple[float, int | None]:
    best, by = 0.0, None
    for index, pattern in enumerate(patterns):
        reach = pattern.reach(command)
        if reach > best:
            best, by = reach, index
    return best, by


def _vouched(problem: ParseProblem, reaches: Sequence[float]) -> bool:
    """A rule for exactly this command has seen what it hides, unless the text itself is not what would run."""
    return problem.kind not in UNKNOWABLE and problem.command is not None and reaches[problem.command] == inf


def refused_by(analysis: ShellAnalysis, pattern: ShellPattern) -> bool:
    """Whether a rule holds against a line: any command of it matches, hidden ones too, or its bare text does."""
    raw = analysis.raw.split()
    words = pattern.text.removesuffix(":*").split() if pattern.prefix else pattern.text.split()
    if raw == words or (pattern.prefix and words and raw[: len(words)] == words):
        return True
    return any(pattern.refuses(command) for command in analysis.commands)


def may_be_refused_by(analysis: ShellAnalysis, pattern: ShellPattern) -> bool:
    """Whether a rule could hold against what a line turns out to run."""
    if any(problem.kind not in OPEN for problem in analysis.problems):
        return True
    return any(pattern.may_refuse(command) for command in analysis.commands)


def path_words(analysis: ShellAnalysis) -> list[Word]:
    """Every word that could name a file: arguments, values of options and assignments, targets."""
    assignments = [*analysis.assignments, *(a for command in analysis.commands for a in command.assignments)]
    words = [redirection.target for redirection in analysis.redirections]
    words.extend(word for command in analysis.commands for word in command.words)
    for word in (*words, *(assignment.value for assignment in assignments)):
        name, equals, value = word.lead.partition("=")
        if equals and value and "/" not in name:
            words.append(Word(value, value if word.value is not None else None, value, value.startswith("~")))
    return words
