"""The laws that matter, against the real shells: a line that an allow for `echo` lets through runs nothing but echo,
a line that an allow for `cat` lets through does not show closed files, and a word becomes only what was foreseen.

Lines are generated at random from pieces that shells and grammars disagree about; each line that the policy would
allow is run by bash and by zsh (plain, and with its extended patterns), which may read it differently: Claude Code
uses the user's shell.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from fairlead.model.policy import Behavior, PermissionMode
from fairlead.sessions.permissions import disk
from fairlead.sessions.permissions.policy.paths import tidy
from fairlead.sessions.permissions.shell.expansion import ExpansionContext, expand
from fairlead.sessions.permissions.shell.parser import analyse
from sessions.policy.attacks import ATTACKS
from sessions.policy.canary import Case, build
from sessions.policy.fake_folders import judge_line
from sessions.policy.test_canary import ENVIRONMENT, verdict

pytestmark = pytest.mark.process

BASH = shutil.which("bash") or "/bin/bash"
ZSH = shutil.which("zsh") or "zsh is not installed: `make clis` fetches it"
SHELLS = ([BASH, "--norc"], [ZSH, "-f"], [ZSH, "-f", "-o", "extendedglob"])
READING_LINES = 1000  # 15,000 were tried by hand
WORDS = 1500  # 100,000 were tried by hand
LINES = 2000  # a few hundred of them are allowed and therefore run; 1.8 million were tried by hand

PIECES = [
    *[
        "echo ",
        "echo",
        "PWN",
        "PWN",
        " PWN ",
        " ",
        " ",
        "\n",
        "\n",
        "'",
        "'",
        '"',
        '"',
        "\\",
        "\\",
        "$",
        "$(",
        ")",
        "(",
    ],
    *[
        "`",
        "`",
        ";",
        "&",
        "|",
        "<",
        ">",
        "<<",
        "<<<",
        "<<-",
        "EOF",
        "\nEOF\n",
        "'EOF'",
        "{",
        "}",
        "{ ",
        "; }",
        "#",
        " #",
    ],
    *["!", "! ", "[", "[[ ", " ]]", " ]", "((", "))", "$((", "${", "}", "x", "a=b ", "x=", "if ", "then ", "fi", "=~"],
    *["; do ", " done", "for x in ", "case x in ", "x)", ";;", " esac", "=", "~", "*", "?", "-eq", "-f ", "$'", "\\n"],
    *["$x", "@P", "[0]", ",", "..", "%", "^", "\t", "&&", "||", "2>", "&>", "time ", "coproc ", "function ", "x()"],
    *["\\\n", "-n", "<(", ">(", " in ", "select ", '$"', "\\'", '\\"', "else ", ":", ":-", "+", "@(", "!(", "1"],
    *["../out", " >../out", ">>", ">|", "<>"],
]
STARTS = [
    "echo hi",
    "echo 'a b' \"c\" PWN",
    "echo $(echo PWN)",
    "echo `echo PWN`",
    "echo a <<EOF\nPWN\nEOF\n",
    "echo 'x' # PWN",
    "for x in a b; do echo $x PWN; done",
    "if [ -f x ]; then echo PWN; fi",
    "case x in x) echo PWN;; esac",
    'echo "$(echo "PWN")"',
    "[[ -f x && x == PWN ]] && echo y",
    "{ echo a; echo PWN; } > f ../out",
    "(echo a; echo PWN)",
    "echo ${x} $((1+2)) PWN",
    "! echo a | echo PWN",
    "echo ../out > f 2>&1",
    "echo <<'EOF' PWN\n$(PWN)\nEOF\necho z",
    "echo $'a\\'PWN'",
    "x=1; echo $x PWN",
    "echo '../out' >> f; echo PWN",
]


# The same for readers, in a folder with links to closed files.
READING_PIECES = [
    *["cat ", "cat ", "grep -h . ", "docs", "tok", "tok", "/", "/canary.txt", "canary.txt", "*", "?", "[t]", "[a-z]"],
    *[
        "{",
        "}",
        ",",
        "t",
        "o",
        "k",
        "ok",
        "$x",
        "${x}",
        "x=tok; ",
        "x=docs; ",
        "y=ok; ",
        "$y",
        "$PWD",
        "$HOME",
        "~",
        "~+",
    ],
    *["..", "../", "'", '"', "\\", "$'", "\\x6b", "\\157", "cd docs; ", "cd sub && ", "cd .. && ", "cd self; ", "; "],
    *["&& ", "|| ", "| ", "for f in ", "; do ", "; done", "$f", "< ", "xargs ", "${x:-", "${", "$(", ")", "plain.txt"],
    *["self", "sub", "only", "tik", "sub/", "echo ", ".local", "share", "fairlead", ".local/share/fairlead/", "=", "("],
    *["/proc/self/cwd/", " ", "\n", "^", "#", "~x", ":h", "[1]", "**/", "{to,}", "{t,u}", "$x[1]", "x=(tok) ", "(N)"],
    *[
        "-r ",
        "-R ",
        "find ",
        "-exec cat {} +",
        "-name ",
        "\t",
        "echo tok |",
        "git show ",
        "!",
        "&",
        "git diff --no-index ",
    ],
]
READING_STARTS = [
    "cat tok",
    "cat docs/canary.txt",
    "x=tok; cat $x",
    "for f in t*; do cat $f; done",
    "cd sub && cat tik",
    "cat {tok,plain.txt}",
    "cd docs; cat canary.txt",
    "cat $PWD/tok",
    "cat < tok",
    "cat $'to\\x6b'",
    "x=docs; cat ${x}/canary.txt",
    "cd sub; cd only; cat canary.txt",
    "cat 'tok' \"plain.txt\"",
    "echo plain.txt | xargs cat",
    "find . -name plain.txt -exec cat {} +",
]

# Pieces of one word, whose expansions come in another order in each shell.
WORD_PIECES = [
    *["a", "b", "1", "_", "é", "/", "sub", ".", "..", "-", "!", "%", "@", "+", ":", "=", "#", "^", "~", "~/", "~+/"],
    *["*", "?", "**", "[", "[ab]", "[!x]", "[^", "[a", "!]", "a]", "[]a]", "]", "\\]", "']'", "'['", "'", '"', "''"],
    *['""', "\\", "\\\n", "\\{", "\\,", "'{'", "$", "$x", "$y", "$x_", "${x}", '"$x"', "${x:-b}", "${y:+a}", "$'a'"],
    *["$'\\x61'", "{", "}", ",", "{},", "{a,b}", "{a,}", "{,b}", "{~,a}", "{*,a}", "{=ls,a}", "{$x,b}", "{a,$y}"],
    *["{'a',b}", "{a\\,b}", "{a,{b,1}}", "{1..2}", "{b..a}", "{a..b..1}"],
]
EXPANDED = r"""x=a; y=
while IFS= read -r -d '' word; do eval "printf '%s\037' $word" 2>/dev/null; printf '\036'; done < "$1"
"""


def made_lines(rng: random.Random, count: int, pieces: list[str], starts: list[str]) -> list[str]:
    lines: list[str] = []
    for _ in range(count):
        if rng.random() < 0.4:
            line = pieces[0] + "".join(rng.choices(pieces, k=rng.randint(2, 10)))
        else:
            line = rng.choice(starts)
            for _ in range(rng.randint(1, 4)):
                at, to = rng.randint(0, len(line)), rng.randint(0, len(line))
                match rng.randint(0, 4):
                    case 0:
                        line = line[:at] + line[at + rng.randint(1, 3) :]
                    case 1:
                        line = line[:at] + line[min(at, to) : max(at, to)] + line[at:]
                    case _:
                        line = line[:at] + rng.choice(pieces) + line[at:]
        lines.append(line)
    return lines


def test_lines_allowed_for_echo_run_nothing_else_in_the_real_shells(tmp_path: Path, rng: random.Random) -> None:
    programs, folder, mark, outside = tmp_path / "bin", tmp_path / "project", tmp_path / "mark", tmp_path / "out"
    programs.mkdir()
    folder.mkdir()
    program = programs / "PWN"
    program.write_text(f"#!{BASH}\n: > {mark}\n")
    program.chmod(0o755)
    where = {"allow": ["Bash(echo:*)"], "cwd": str(folder), "roots": (str(folder),), "resolve": os.path.realpath}
    where["mode"] = PermissionMode.ACCEPT_EDITS
    attacks = [attack.replace("rm x", "PWN").replace("touch x", "PWN") for attack in ATTACKS]
    lines = [*made_lines(rng, LINES, PIECES, STARTS), *attacks]
    ran = 0
    for line in dict.fromkeys(lines):
        if ("PWN" not in line and "out" not in line) or judge_line(line, **where).behavior is not Behavior.ALLOW:
            continue
        ran += 1
        for shell in SHELLS:
            shown(shell, line, folder, {"PATH": str(programs), "HOME": str(folder)})
            assert not mark.exists(), f"{line!r} was allowed and ran PWN in {shell}"
            assert not outside.exists(), f"{line!r} was allowed and wrote outside the roots in {shell}"
    assert ran > 50  # otherwise this test proves nothing


def test_lines_allowed_for_readers_do_not_show_closed_files(tmp_path: Path, rng: random.Random) -> None:
    world = build(Path(os.path.realpath(tmp_path)))
    ran = 0
    for line in dict.fromkeys(made_lines(rng, READING_LINES, READING_PIECES, READING_STARTS)):
        case = Case("Bash", {"command": line}, "made")
        if "***" in line or verdict(world, case, PermissionMode.ACCEPT_EDITS) is not Behavior.ALLOW:
            continue
        ran += 1
        for shell in SHELLS:
            output = shown(shell, line, world.project, {**ENVIRONMENT, "HOME": str(world.home)})
            assert world.harm(output) is None, f"{line!r} was allowed, and in {shell} {world.harm(output)}"
    assert ran > 30


def test_the_expansions_of_a_word_by_a_shell_are_predicted(tmp_path: Path, rng: random.Random) -> None:
    folder, given = tmp_path / "folder", tmp_path / "words"
    (folder / "sub" / "deep").mkdir(parents=True)
    given.touch()  # the home must not change between our expansion and the shell's
    for name in ("a", "b", "ab", ".h", "{a,b}", "1", "a1", "^a", "a#", "~", "a~b", "]", "[a]", "*", "a\\b", "sub/.h"):
        (folder / name).touch()
    made = ("".join(rng.choices(WORD_PIECES, k=rng.randint(1, 7))) for _ in range(WORDS))
    shell = ExpansionContext((str(folder),), str(tmp_path), {"x": ("a",), "y": ("",)}, disk.entries)
    # zsh itself fails on a brace at the end of a word; a pattern from the root would list the whole machine.
    chosen = (word for word in dict.fromkeys(made) if not word.endswith("{") and not word.startswith("/"))
    single = (word for word in chosen if is_one_word(word))
    foreseen = {word: texts for word in single if (texts := expand(word, shell)) is not None}
    assert len(foreseen) > WORDS // 5  # otherwise this test proves nothing
    given.write_bytes(b"".join(word.encode() + b"\0" for word in foreseen))
    for program, *options in (SHELLS[0], *([*zsh, "-o", "nonomatch", "-o", "nobadpattern"] for zsh in SHELLS[1:])):
        output = shown([program, *options], EXPANDED, folder, {"HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}, str(given))
        results = output.split("\x1e")[:-1]
        for (word, texts), result in zip(foreseen.items(), results, strict=True):
            become = {tidy(text) for text in result.split("\x1f")[:-1] if text}
            assert become <= {tidy(text) for text in texts if text}, f"{word!r} in {program} {options}"


def is_one_word(text: str) -> bool:
    line = analyse(f"echo {text}")
    return line.knowable and [word.raw for command in line.commands for word in command.words] == ["echo", text]


def shown(shell: list[str], line: str, folder: Path, env: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [*shell, "-c", line, "shell", *arguments],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return done.stdout.decode(errors="replace")
