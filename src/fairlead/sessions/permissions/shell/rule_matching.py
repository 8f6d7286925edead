"""Rules for shell commands: which words of a parsed line a rule covers. Pure.

Content is `words:*` (the command begins with these words, each a whole word) or `words` (exactly this command);
a `*` at the end of a word matches the rest of that word. Content with several commands matches only the whole line.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import inf

import msgspec

from fairlead.sessions.permissions.shell.line import OPEN, UNKNOWABLE, ShellAnalysis, SimpleCommand, Word
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
        """Return whether the word could match after its expansion."""
        if word.value is not None:
            return self.matches(word)
        return self.text.startswith(word.lead) or (self.open_end and word.lead.startswith(self.text))


class ShellPattern(msgspec.Struct, frozen=True):
    """The parsed content of a Bash rule. Without `words` it can only match the text of the whole line."""

    text: str
    words: tuple[PatternWord, ...]
    prefix: bool

    def reach(self, command: SimpleCommand) -> float:
        """Return how many words of the command this rule names: 0 without a match, infinite when it names all."""
        words = command.words
        if not self.words or len(words) < len(self.words) or (not self.prefix and len(words) > len(self.words)):
            return 0
        if not all(pattern.matches(word) for pattern, word in zip(self.words, words, strict=False)):
            return 0
        return len(self.words) if self.prefix else inf

    def refuses(self, command: SimpleCommand) -> bool:
        """Match for a deny or ask rule: `/bin/rm` counts as rm too."""
        if self.reach(command) > 0:
            return True
        name = command.name
        if not self.words or name is None or "/" not in name:
            return False
        plain = base_name(name)
        return self.reach(SimpleCommand((Word(plain, plain, plain), *command.words[1:]), command.raw)) > 0

    def may_refuse(self, command: SimpleCommand) -> bool:
        """Return whether the rule could refuse the command: a word is unknown, or options separate the named ones."""
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
                    return True  # it can expand to several words: all the words that the rule still names
                if pattern.matches(word):
                    break
            else:
                return False
        return True


@lru_cache(maxsize=512)
def shell_pattern(content: str) -> ShellPattern:
    """Parse the content of a Bash rule. Never raises; `problem_with` explains how to correct it."""
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
    """Explain to a person why the content of a Bash rule would not work as written; None when it would."""
    pattern = shell_pattern(content)
    if content == ANYTHING or pattern.words:
        return None
    if pattern.prefix:
        return "must name one plain command before its :*, for example Bash(git status:*)"
    return None if analyse(content).knowable else "is not a shell command that can be understood"


class Coverage(msgspec.Struct, frozen=True):
    """Whether allow rules cover a line. `missing`: the first part that they do not cover, None when they cover all.

    `named`: for each command how many of its words the rules name; `whole`: the text of a rule equals the whole line.
    """

    missing: str | None
    used: tuple[int, ...] = ()
    named: tuple[float, ...] = ()
    whole: bool = False


def coverage(analysis: ShellAnalysis, patterns: Sequence[ShellPattern]) -> Coverage:
    """Check whether these allow rules cover a whole line except its redirections; `used` are the rules that did."""
    whole = [i for i, p in enumerate(patterns) if not p.prefix and p.text == analysis.raw.strip()]
    if whole and analysis.knowable:
        return Coverage(None, (whole[0],), (inf,) * len(analysis.commands), whole=True)
    reaches: list[float] = []
    used: list[int] = []
    for command in analysis.commands:
        own = [pattern.reach(command) for pattern in patterns]
        best = max(own, default=0.0)
        if best > 0:
            used.append(own.index(best))
        if command.within is not None:
            best = max(best, reaches[command.within] - command.named + 1)
        reaches.append(best)
        if best < command.least:
            return Coverage(f"no rule allows {command.raw[:120]!r}")
    for problem in analysis.problems:
        exact = problem.command is not None and reaches[problem.command] == inf
        # A rule for exactly this command accepts the problem, unless the shell may run something else.
        if problem.kind in UNKNOWABLE or not exact:
            return Coverage(problem.text)
    if not used:
        return Coverage("no rule covers it")
    return Coverage(None, tuple(dict.fromkeys(used)), tuple(reaches))


def refused_by(analysis: ShellAnalysis, pattern: ShellPattern) -> bool:
    """Return whether a deny or ask rule matches a line: one of its commands, hidden ones too, or its plain text."""
    raw = analysis.raw.split()
    words = pattern.text.removesuffix(":*").split() if pattern.prefix else pattern.text.split()
    if raw == words or (pattern.prefix and words and raw[: len(words)] == words):
        return True
    return any(pattern.refuses(command) for command in analysis.commands)


def may_refuse(analysis: ShellAnalysis, pattern: ShellPattern) -> bool:
    """Return whether a deny or ask rule could match the commands that the line runs in the end."""
    if any(problem.kind not in OPEN for problem in analysis.problems):
        return True
    return any(pattern.may_refuse(command) for command in analysis.commands)
