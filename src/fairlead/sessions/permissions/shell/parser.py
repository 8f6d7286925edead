"""Parser for shell lines: the bash grammar gives the structure, our own lexer confirms every word. Nothing runs here.

The invariant: a construct that is not understood becomes a ParseProblem, and every byte of the line must be accounted
for. Only then may an allow rule trust that the listed commands are all the commands of the line.
The parser does not know what a command does with its words, nor which aliases the shell already had.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from fairlead.sessions.permissions.shell import grammar, lexer
from fairlead.sessions.permissions.shell.effects import LineEffects
from fairlead.sessions.permissions.shell.line import (
    Assignment,
    LoopVariable,
    ParseProblem,
    ProblemKind,
    ShellAnalysis,
    Word,
)

_LANGUAGE = Language(tree_sitter_bash.language())

_PLAIN = bytes(byte if byte < 0x80 else ord(".") for byte in range(256))
"""The grammar's scanner reads memory at random for characters beyond Latin-1, and the process may die of it. To the
shell every byte beyond ASCII is an ordinary part of a word that no name may contain: the grammar sees a dot."""


def analyse(command: str) -> ShellAnalysis:
    """Return all commands, redirections and problems of a shell line. Never raises, whatever the text."""
    return _analyse(command, 0)


# The same line is analysed a few times in a row: by the hook, for the permission request, for a suggestion.
@lru_cache(maxsize=32)
def _analyse(command: str, level: int) -> ShellAnalysis:
    if len(command) > grammar.MAX_BYTES or len(source := command.encode(errors="surrogatepass")) > grammar.MAX_BYTES:
        return _refused(command, ProblemKind.TOO_LONG, f"the line is longer than {grammar.MAX_BYTES} bytes")
    bad = lexer.forbidden_character(command)
    if bad is not None:
        return _refused(command, ProblemKind.CONTROL, f"the line contains the character U+{ord(bad):04X}")
    if len(grammar.SIGN.findall(command)) > grammar.MAX_SIGNS:
        return _refused(
            command, ProblemKind.TOO_LONG, f"the line has more than {grammar.MAX_SIGNS} quotes and operators"
        )
    if level > grammar.MAX_UNWRAP:
        return _refused(command, ProblemKind.NESTING, "too many commands are hidden in one another")
    return _Reader(command, source, level).analysis()


def _refused(command: str, kind: ProblemKind, text: str) -> ShellAnalysis:
    return ShellAnalysis(command, problems=(ParseProblem(kind, text),))


class _Reader:
    """One walk over one syntax tree. `seen` marks the bytes that a word or token has accounted for."""

    def __init__(self, command: str, source: bytes, level: int) -> None:
        self.command = command
        self.source = source
        self.seen = bytearray(len(source))
        self.out = LineEffects(lambda code: _analyse(code, level + 1))

    def analysis(self) -> ShellAnalysis:
        root = Parser(_LANGUAGE).parse(self.source.translate(_PLAIN)).root_node
        if root.has_error:
            self.out.problem(ProblemKind.PARSE, "the line is not understood by the shell grammar")
        self.statement(root, 0)
        self.check_all_seen()
        return self.out.analysis(self.command)

    # The text, and which of its bytes are accounted for

    def text(self, start: int, end: int) -> str:
        return self.source[start:end].decode(errors="replace")

    def mark(self, node: Node) -> None:
        self.mark_range(node.start_byte, node.end_byte)

    def mark_range(self, start: int, end: int) -> None:
        self.seen[start:end] = b"\1" * (end - start)

    def check_all_seen(self) -> None:
        """Check that the remaining bytes are only whitespace, or escaped newlines after whitespace.

        An escaped newline anywhere else would join two words.
        """
        left = bytes(0 if seen else byte for byte, seen in zip(self.source, self.seen, strict=True))
        joins = any(self.source[m.start() - 1 : m.start()].strip(b" \t\n") for m in re.finditer(rb"\\\n", left))
        if joins or left.replace(b"\\\n", b"").translate(None, b"\0 \t\n"):
            self.out.problem(ProblemKind.LEXING, "the grammar passed over a part of the line")

    # Statements

    def statement(self, node: Node, depth: int) -> None:
        """Process a statement, or any node that contains statements."""
        if depth > grammar.MAX_DEPTH:
            self.mark(node)
            self.out.problem(ProblemKind.NESTING, "the line is nested too deeply")
            return
        kind = node.type
        if kind in grammar.ONE_LINE:
            self.check_one_line(node)
        if kind == "command":
            self.simple_command(node, depth)
        elif kind in ("file_redirect", "herestring_redirect"):
            self.redirect(node, depth)
        elif kind == "heredoc_redirect":
            self.heredoc(node, depth)
        elif kind == "variable_assignment":
            self.out.assignments.append(self.assignment(node, depth))
            self.out.variable(self.out.assignments[-1].name, exported=False)
        elif kind in ("declaration_command", "unset_command"):
            self.declaration(node, depth)
        elif kind == "test_command":
            self.test(node, depth)
        elif kind == "comment":
            self.comment(node)
        elif kind in grammar.BODIES and not _is_arithmetic(node):
            self.body(node, depth)
        else:
            self.not_vouched(node, depth)

    def body(self, node: Node, depth: int) -> None:
        name, words = "", []
        for child in node.children:
            if child.type == "variable_name":
                # The variable of a for or select loop.
                self.mark(child)
                name = self.text(child.start_byte, child.end_byte)
                self.out.variable(name, exported=False)
            elif child.type in grammar.WORDS and node.type in grammar.WITH_WORDS:
                words.append(self.word([child], depth))
                self.out.check_assigned_text(words[-1])
            elif child.is_named:
                self.statement(child, depth + 1)
            elif child.type in grammar.TOKENS:
                self.token(child)
            else:
                self.not_vouched(child, depth)
        if name:
            self.out.loop_variables.append(LoopVariable(name, tuple(words)))

    def token(self, node: Node) -> None:
        """Process an operator or a reserved word; a reserved word counts only with delimiters on both sides."""
        if node.type not in grammar.OPERATORS:
            self.check_ends(node.start_byte, node.end_byte)
        self.mark(node)

    def not_vouched(self, node: Node, depth: int) -> None:
        """Report a construct that can run commands or change state unseen by any rule; only collect its commands."""
        named = {
            "function_definition": (ProblemKind.FUNCTION, "a function gives a new meaning to a name"),
            "ERROR": (ProblemKind.PARSE, "the line is not understood by the shell grammar"),
        }
        kind, text = named.get(node.type, (ProblemKind.EXPANSION, f"what {node.type} does is not known before it runs"))
        self.out.problem(kind, text)
        self.look_through(node, depth + 1)
        self.mark(node)

    def look_through(self, node: Node, depth: int) -> None:
        """Find the commands inside a node of any type."""
        if depth > grammar.MAX_DEPTH:
            self.out.problem(ProblemKind.NESTING, "the line is nested too deeply")
            return
        for child in node.children:
            if child.type == "command" or child.type in grammar.BODIES:
                self.statement(child, depth + 1)
            else:
                self.look_through(child, depth + 1)

    def check_one_line(self, node: Node) -> None:
        """Check that no unescaped newline stands inside the node: it ends a command, but the grammar skips some."""
        for left, right in pairwise(node.children):
            if b"\n" in self.source[left.end_byte : right.start_byte].replace(b"\\\n", b""):
                self.out.problem(ProblemKind.LEXING, "a command goes on after the end of its line")

    def comment(self, node: Node) -> None:
        if node.start_byte and self.source[node.start_byte - 1] not in lexer.DELIMITERS:
            self.out.problem(ProblemKind.LEXING, "a comment begins inside a word")
        self.mark(node)

    # Words

    def word(self, nodes: Sequence[Node], depth: int) -> Word:
        """Return the word whose parts are `nodes`; its expansions are processed too."""
        start, end = nodes[0].start_byte, nodes[-1].end_byte
        self.check_ends(start, end)
        holes = [hole for node in nodes for hole in self.expansions(node, depth)]
        for hole in holes:
            self.expansion(hole, depth + 1)
        places: list[tuple[int, int]] = []
        at = start
        for hole in holes:
            self.mark_range(at, hole.start_byte)
            places.append((len(self.text(start, hole.start_byte)), len(self.text(start, hole.end_byte))))
            at = hole.end_byte
        self.mark_range(at, end)
        raw = self.text(start, end)
        word = lexer.read_word(raw, places)
        if word is None:
            self.out.problem(ProblemKind.LEXING, f"{raw[:80]!r} is not plainly one word")
            return Word(raw, None, "")
        return word

    def check_ends(self, start: int, end: int) -> None:
        """Check that a word begins and ends at a delimiter of the shell, not only where the grammar cut it."""
        before = self.source[start - 1] if start else 0x20
        after = self.source[end] if end < len(self.source) else 0x20
        if before not in lexer.DELIMITERS | {0x60} or after not in lexer.DELIMITERS | {0x60}:
            self.out.problem(
                ProblemKind.LEXING, f"{self.text(start, end)[:80]!r} runs together with the text next to it"
            )

    def expansions(self, node: Node, depth: int) -> Iterator[Node]:
        if node.type in grammar.EXPANSIONS:
            yield node
        elif depth > grammar.MAX_DEPTH:
            self.out.problem(ProblemKind.NESTING, "the line is nested too deeply")
        else:
            for child in node.children:
                yield from self.expansions(child, depth + 1)

    def expansion(self, node: Node, depth: int) -> None:
        raw = self.text(node.start_byte, node.end_byte).lstrip(" \t\n")
        if node.type in ("command_substitution", "process_substitution"):
            if not raw.startswith(("$(", "<(", ">(", "`")) or raw.startswith("$((") or "\\`" in raw:
                self.not_vouched(node, depth)
            else:
                self.body(node, depth)
        elif lexer.is_safe_expansion(raw):
            self.mark(node)
        else:
            self.not_vouched(node, depth)

    # Simple commands

    def simple_command(self, node: Node, depth: int) -> None:
        given = [child for child in node.children if child.type == "variable_assignment"]
        rest = [child for child in node.children if child.type != "variable_assignment"]
        parts = [child for child in rest if child.type not in grammar.NOT_WORDS]
        assignments = tuple(self.assignment(child, depth) for child in given)
        words = self.words(parts, depth)
        for child in rest:
            if child.type in grammar.NOT_WORDS:
                self.statement(child, depth + 1)
        for assignment in assignments:
            self.out.variable(assignment.name, exported=True)
        if words:
            self.out.command(words, assignments, self.text(parts[0].start_byte, parts[-1].end_byte))

    def words(self, parts: Sequence[Node], depth: int) -> tuple[Word, ...]:
        """Join parts without a gap into one word: the grammar cuts some words in two (`"a"'b'\\c`)."""
        groups: list[list[Node]] = []
        for part in parts:
            if groups and groups[-1][-1].end_byte == part.start_byte:
                groups[-1].append(part)
            else:
                groups.append([part])
        return tuple(self.word(group, depth) for group in groups)

    def declaration(self, node: Node, depth: int) -> None:
        """Process export, declare, unset ... like any other command, with its assignments as words."""
        self.out.command(self.words(node.children, depth), (), self.text(node.start_byte, node.end_byte))

    def assignment(self, node: Node, depth: int) -> Assignment:
        name, _, _ = self.text(node.start_byte, node.end_byte).partition("=")
        word = self.word([node], depth)
        self.out.check_assigned_text(word)
        return Assignment(name, word)

    # Redirections

    def redirect(self, node: Node, depth: int) -> None:
        operator = ""
        targets: list[Node] = []
        for child in node.children:
            if child.type == "file_descriptor":
                self.mark(child)
            elif child.is_named:
                targets.append(child)
            else:
                operator = child.type
                self.mark(child)
        if operator.endswith("&-"):
            return
        words = self.words(targets, depth)
        if len(words) != 1:
            # The grammar takes both words of `> out -n` as the target; the shell takes only the first.
            self.out.problem(ProblemKind.LEXING, "a redirection has more than one word")
        for word in words:
            self.out.redirection(operator, word)

    def heredoc(self, node: Node, depth: int) -> None:
        parts: dict[str, Node] = {}
        last = 0
        for child in node.children:
            if child.type in ("heredoc_start", "heredoc_body", "heredoc_end"):
                parts[child.type] = child
                self.mark(child)
            elif child.is_named:
                # The rest of the line after the start of the here-document; a word there belongs to the command.
                self.statement(child, depth + 1)
                last = max(last, child.end_byte)
            elif child.type in ("<<", "<<-") or child.type in grammar.OPERATORS:
                self.mark(child)
            else:
                self.not_vouched(child, depth)
        if not self.heredoc_is_plain(parts, last, tabs=node.children[0].type == "<<-"):
            self.out.problem(ProblemKind.LEXING, "the extent of the here-document is not plain")
            if "heredoc_body" in parts:
                self.look_through(parts["heredoc_body"], depth)

    def heredoc_is_plain(self, parts: dict[str, Node], last: int, *, tabs: bool) -> bool:
        """Return whether grammar and shell agree about the here-document, and its text runs no command."""
        start, end, body = (parts.get(f"heredoc_{name}") for name in ("start", "end", "body"))
        delimiter = lexer.read_delimiter(start.text or b"") if start is not None else None
        if start is None or end is None or delimiter is None:
            return False
        line_end = self.source.find(b"\n", start.end_byte)
        closing = lexer.find_end(self.source, line_end + 1, delimiter, tabs=tabs) if line_end >= last else None
        if closing is None or closing[0] > end.start_byte or closing[1] != end.end_byte:
            return False
        # The grammar leaves parts of an unquoted body unmarked.
        self.mark_range(line_end, closing[0])
        return delimiter.quoted or body is None or not lexer.expands(self.source[line_end : closing[0]])

    # Tests

    def test(self, node: Node, depth: int, *, double: bool = False) -> None:
        """Process `[ ... ]` or `[[ ... ]]`. They only read, unless an operator evaluates its words as arithmetic."""
        self.check_one_line(node)
        for child in node.children:
            text = self.text(child.start_byte, child.end_byte)
            double = double or text == "[["
            if child.type in grammar.TEST_PARTS and depth <= grammar.MAX_DEPTH:
                self.test(child, depth + 1, double=double)
            elif child.type in grammar.WORDS:
                self.word([child], depth)
            elif text in grammar.TEST_WORDS:
                self.check_ends(child.start_byte, child.end_byte)
                self.mark(child)
            elif double and text in grammar.TEST_SIGNS:
                self.mark(child)
            else:
                # In `[ ... ]` the shell itself interprets these signs: a redirection, a list, a subshell.
                self.not_vouched(child, depth)


def _is_arithmetic(node: Node) -> bool:
    """Return whether the node is `((...))`, which the grammar calls a compound statement too."""
    return node.type == "compound_statement" and bool(node.children) and node.children[0].type == "(("
