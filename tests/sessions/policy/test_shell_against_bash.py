"""The law that matters, against the real shell: a line that an allow for `echo` lets through runs nothing but echo.

Lines are made at random from what shells and grammars disagree about; each one that the policy would allow is run
by bash in an empty folder where `PWN` is a program that leaves a mark and `../out` is outside the roots.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

from fairlead.model.policy import Behavior
from sessions.policy.attacks import ATTACKS
from sessions.policy.place import judge_line

BASH = shutil.which("bash") or "/bin/bash"
LINES = 2500  # a few hundred of them are allowed and so are run; 1.8 million were tried by hand

PIECES = [
    *[
        "echo",
        "echo ",
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


def made_lines(rng: random.Random) -> list[str]:
    lines: list[str] = []
    for _ in range(LINES):
        if rng.random() < 0.4:
            line = "echo " + "".join(rng.choices(PIECES, k=rng.randint(2, 10)))
        else:
            line = rng.choice(STARTS)
            for _ in range(rng.randint(1, 4)):
                at, to = rng.randint(0, len(line)), rng.randint(0, len(line))
                match rng.randint(0, 4):
                    case 0:
                        line = line[:at] + line[at + rng.randint(1, 3) :]
                    case 1:
                        line = line[:at] + line[min(at, to) : max(at, to)] + line[at:]
                    case _:
                        line = line[:at] + rng.choice(PIECES) + line[at:]
        lines.append(line)
    return lines


def test_what_an_allow_for_echo_lets_through_runs_nothing_else_in_the_real_shell(
    tmp_path: Path, rng: random.Random
) -> None:
    programs, folder, mark, outside = tmp_path / "bin", tmp_path / "project", tmp_path / "mark", tmp_path / "out"
    programs.mkdir()
    folder.mkdir()
    program = programs / "PWN"
    program.write_text(f"#!{BASH}\n: > {mark}\n")
    program.chmod(0o755)
    where = {"allow": ["Bash(echo:*)"], "cwd": str(folder), "roots": (str(folder),), "resolve": os.path.realpath}
    lines = [*made_lines(rng), *(attack.replace("rm x", "PWN").replace("touch x", "PWN") for attack in ATTACKS)]
    ran = 0
    for line in dict.fromkeys(lines):
        if ("PWN" not in line and "out" not in line) or judge_line(line, **where).behavior is not Behavior.ALLOW:
            continue
        ran += 1
        subprocess.run(
            [BASH, "-c", line],
            cwd=folder,
            env={"PATH": str(programs), "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        assert not mark.exists(), f"{line!r} was allowed and ran PWN"
        assert not outside.exists(), f"{line!r} was allowed and wrote outside the roots"
    assert ran > 50  # else this test shows nothing
