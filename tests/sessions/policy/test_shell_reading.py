"""Parsing of a shell line: commands, words, redirections, and commands hidden in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.sessions.permissions.shell.grammar import MAX_BYTES, MAX_SIGNS
from fairlead.sessions.permissions.shell.lexer import forbidden_character, read_word
from fairlead.sessions.permissions.shell.line import ProblemKind
from fairlead.sessions.permissions.shell.parser import analyse


def commands(line: str) -> list[list[str | None]]:
    return [[word.value for word in command.words] for command in analyse(line).commands]


def troubles(line: str) -> set[ProblemKind]:
    return {problem.kind for problem in analyse(line).problems}


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("abc", "abc"),
        ("\"a\"'b'\\c", "abc"),
        ("''", ""),
        ('"a b"', "a b"),
        (r"a\ b", "a b"),
        (r'"\$x \"q\" \\ \n"', r'$x "q" \ \n'),
        ("'\\'", "\\"),
        ("a\\\nb", "ab"),
        ('"a\\\nb"', "ab"),
        ("$'a b'", "a b"),
        ("{}", "{}"),
        ("~/x", "~/x"),
        ('"$"', "$"),
        ("a#b", "a#b"),
    ],
)
def test_the_value_of_a_quoted_word(raw: str, value: str) -> None:
    word = read_word(raw)
    assert word is not None
    assert word.value == value
    assert word.lead == value


@pytest.mark.parametrize(
    ("raw", "lead"),
    [("*.py", ""), ("a?", "a"), ("a[bc]", "a"), ("x{a,b}", "x"), ("=ls", ""), ("$'a\\nb'", ""), ("src/*", "src/")],
)
def test_a_word_that_only_the_shell_can_expand_has_no_value(raw: str, lead: str) -> None:
    word = read_word(raw)
    assert word is not None
    assert (word.value, word.lead) == (None, lead)


@pytest.mark.parametrize(
    "raw", ["", "#x", "a b", "a;b", "a\nb", "`x`", "'a", '"a', "a\\", "$x", '"$x"', '"`x`"', "a$", '$"a"', "a(b"]
)
def test_a_text_that_is_not_one_plain_word_is_refused(raw: str) -> None:
    assert read_word(raw) is None


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc", "Cf", "Zl", "Zp")), max_size=20))
def test_a_single_quoted_text_is_read_back_unchanged(text: str) -> None:
    quoted = "'" + text.replace("'", "'\\''") + "'"
    assert commands(f"echo {quoted}") == [["echo", text]]


def test_only_an_unquoted_tilde_is_expanded() -> None:
    words = analyse("ls ~/a '~/b' \\~/c").commands[0].words
    assert [word.tilde for word in words] == [False, True, False, False]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a; b && c || d | e |& f & g", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a\nb", [["a"], ["b"]]),
        ("(a; b)", [["a"], ["b"]]),
        ("{ a; b; }", [["a"], ["b"]]),
        ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("while a; do b; done", [["a"], ["b"]]),
        ("for x in 1 2; do a $x; done", [["a", None]]),
        ("case x in a) b;; *) c;; esac", [["b"], ["c"]]),
        ("! a", [["a"]]),
        ("time a", [["a"]]),
        ("a $(b) `c`", [["b"], ["c"], ["a", None, None]]),
        ('a "x $(b) y"', [["b"], ["a", None]]),
        ("a <(b)", [["b"], ["a", None]]),
        ("f() { a; }; f", [["a"], ["f"]]),
        ("x=1", []),
        ("[ -f x ]", []),
        ("a > b", [["a"]]),
        ("env A=1 b c", [["env", "A=1", "b", "c"], ["b", "c"]]),
        ("sh -c 'a; b'", [["sh", "-c", "a; b"], ["a"], ["b"]]),
        ("sudo -u me env a", [["sudo", "-u", "me", "env", "a"], ["env", "a"], ["a"]]),
        ("find . -exec a {} + -delete", [["find", ".", "-exec", "a", "{}", "+", "-delete"], ["a", None], ["rm", None]]),
        ("xargs -I% a x%", [["xargs", "-I%", "a", "x%"], ["a", None]]),
        ("xargs -I % a %", [["xargs", "-I", "%", "a", "%"], ["a", None]]),
        ("xargs --replace=% a %", [["xargs", "--replace=%", "a", "%"], ["a", None]]),
        ("xargs a", [["xargs", "a"], ["a", None]]),
        ("xargs -- a", [["xargs", "--", "a"], ["a", None]]),
        ("time -p env a", [["env", "a"], ["a"]]),
        ("timeout --signal KILL 5 a", [["timeout", "--signal", "KILL", "5", "a"], ["a"]]),
        ("stdbuf -o L a", [["stdbuf", "-o", "L", "a"], ["a"]]),
        ("env - a", [["env", "-", "a"], ["-", "a"], ["a"]]),
        ("trap 'a' EXIT", [["trap", "a", "EXIT"], ["a"]]),
        ("watch 'a; b'", [["watch", "a; b"], ["a"], ["b"]]),
        ("export A=b", [["export", "A=b"]]),
    ],
)
def test_every_command_of_a_line_is_found(line: str, expected: list[list[str | None]]) -> None:
    assert commands(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a > b", [(">", "b", True)]),
        ("a >> 'b c'", [(">>", "b c", True)]),
        ("a < b", [("<", "b", False)]),
        ("a &> b", [("&>", "b", True)]),
        ("a >& b", [(">&", "b", True)]),
        ("a 2>&1 >&2 <&3 2>&-", []),
        ("a > $x", [(">", None, True)]),
        ("a <<< b", []),
        ("> b", [(">", "b", True)]),
        ("sh -c 'a > b'", [(">", "b", True)]),
        ("find . -fprint b", [(">", "b", True)]),
    ],
)
def test_every_redirection_to_a_file_is_found(line: str, expected: list[tuple[str, str | None, bool]]) -> None:
    assert [(r.operator, r.target.value, r.writes) for r in analyse(line).redirections] == expected


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("echo 'x", ProblemKind.PARSE),
        ("$x", ProblemKind.DYNAMIC_COMMAND),
        ("~/x", ProblemKind.DYNAMIC_COMMAND),
        ("coproc x", ProblemKind.DYNAMIC_COMMAND),
        ("echo ${x:-$y}", ProblemKind.EXPANSION),
        ("echo ${x:=y}", ProblemKind.EXPANSION),
        ("echo $((x))", ProblemKind.EXPANSION),
        ("f() { a; }", ProblemKind.FUNCTION),
        ("alias a=b", ProblemKind.BUILTIN),
        ("ssh host", ProblemKind.WRAPPER),
        ("A=1 b", ProblemKind.ASSIGNMENT),
        ("'a' b", ProblemKind.DISGUISE),
        ("a\x07", ProblemKind.CONTROL),
        (")echo hi", ProblemKind.PARSE),
        ("(echo hi", ProblemKind.PARSE),  # the grammar only reports a missing bracket
        ("echo hi >", ProblemKind.PARSE),
        ("a\\\nb", ProblemKind.LEXING),
        ("echo hi;\\ echo x", ProblemKind.LEXING),  # bash runs a program named " echo"
        ("echo hi;\\\necho x", ProblemKind.LEXING),
        ("echo hi &[0]", ProblemKind.LEXING),  # bash runs "[0]", the grammar sees a test
        ("[! -f x ]", ProblemKind.LEXING),
        ("{echo; }", ProblemKind.LEXING),
        ("echo =~\nrm x", ProblemKind.LEXING),
        ("echo >\nx", ProblemKind.LEXING),
        ("cat <<EOF |\necho hi\nrm x\nEOF", ProblemKind.LEXING),
        ("cat <<EOF\nhi\nEOF;\nEOF", ProblemKind.LEXING),
        ("(" * 200 + "a" + ")" * 200, ProblemKind.NESTING),
        ("echo " + '"$(' * 70 + "a" + ')"' * 70, ProblemKind.NESTING),
        ("[[ " + "! " * 100 + "-f x ]]", ProblemKind.EXPANSION),
        ("echo ${x:-" + "${x:-" * 80 + "}" * 81, ProblemKind.NESTING),
        ("env " * 9 + "a", ProblemKind.NESTING),
        ("x" * (MAX_BYTES + 1), ProblemKind.TOO_LONG),
        ("|" * (MAX_SIGNS + 1), ProblemKind.TOO_LONG),
    ],
)
def test_unknown_parts_of_a_line_are_reported(line: str, kind: ProblemKind) -> None:
    assert kind in troubles(line)


def test_nested_code_is_followed_to_a_limited_depth() -> None:
    line = "eval " * 9 + "a"
    assert ProblemKind.NESTING in troubles(line)


@pytest.mark.parametrize("text", ["\0", "\r", "\x1b", "\x7f", "\x85", "\u202e", "\u200b", "\u2028", "\ud800", "\ufeff"])
def test_characters_that_hide_things_are_found(text: str) -> None:
    assert forbidden_character(f"echo {text} x") == text


def test_ordinary_text_of_any_language_is_not_forbidden() -> None:
    assert forbidden_character("echo\t'été — ☃ 日本'\n") is None


@pytest.mark.parametrize("text", ["\U000d485d", "\U0001de33", "\U0010fffd", "\uffff", "日本", "é"])
def test_characters_beyond_ascii_are_plain_parts_of_words(text: str) -> None:
    """Such a character could end the process: the grammar's scanner looked it up in a table of 256."""
    for number in range(300):
        assert commands(f"echo {text}x{number}; .{text} a") == [["echo", f"{text}x{number}"], [f".{text}", "a"]]
        analyse(f".{text}{{{number}{text}<<{text} ${{{text} $(({text}")
    assert commands(f"{text}=1 rm x") == [[f"{text}=1", "rm", "x"]], "no name of a variable"
    assert commands(f"cat <<{text}\nhi\n{text}\nrm x") == [["cat"], ["rm", "x"]]


@pytest.mark.parametrize(
    "line",
    [
        "cat <<EOF\nhi\nEOF\n",
        "cat <<-EOF\n\thi\n\tEOF",
        "cat <<'EOF'\n$(x)\nEOF",
        'cat <<"EOF"\n`x`\nEOF',
        "cat <<\\EOF\n`x`\nEOF",
        "cat <<EOF\n$x\nEOF",
        "cat <<EOF\nEOF",
        "cat <<EOF | tr a b\nhi\nEOF",
    ],
)
def test_a_plain_here_document_is_accepted(line: str) -> None:
    assert analyse(line).problems == ()
