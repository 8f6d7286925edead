"""A path is judged in every reading that a CLI gives it, and a line in every reading that a shell gives it."""

# ruff: noqa: E501 (lists of lines)

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.model.policy import Behavior, PermissionMode
from fairlead.sessions.permissions import disk
from fairlead.sessions.permissions.policy.call import ToolCall
from fairlead.sessions.permissions.policy.decide import decide
from fairlead.sessions.permissions.policy.suggest import suggest
from fairlead.sessions.permissions.shell.expansion import ExpansionContext, expand
from fairlead.sessions.permissions.shell.program_options import RISKY, RISKY_ANYWHERE, SAFE
from sessions.policy.fake_folders import DATA, judge, judge_line, place

ALLOW, ASK, DENY = Behavior.ALLOW, Behavior.ASK, Behavior.DENY
WORSE = {ALLOW: 0, ASK: 1, DENY: 2}
BLANKS = ["", " ", "\t", "\n", "\r", "\v", "\f", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000", "\ufeff"]
MODES = [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS_PERMISSIONS]

blank = st.sampled_from(BLANKS)
some_path = st.sampled_from(
    [f"{DATA}/token", "/etc/passwd", "~/.ssh/id_rsa", "~/x", "../x", "src/a", "a b", "/proc/self/environ", "caf\u00e9"]
)


@given(some_path, blank, blank, st.sampled_from(["Read", "Write", "Edit"]), st.sampled_from(MODES))
def test_a_decorated_path_gets_no_better_verdict(
    path: str, before: str, behind: str, tool: str, mode: PermissionMode
) -> None:
    plain = judge(tool, {"file_path": path, "content": ""}, mode=mode).behavior
    decorated = judge(tool, {"file_path": f"{before}{path}{behind}", "content": ""}, mode=mode).behavior
    assert WORSE[decorated] >= WORSE[plain]


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("tool", ["Read", "Write"])
def test_the_data_folder_is_denied_in_every_reading(tool: str, blank: str) -> None:
    for path in (f"{DATA}/token", "~/.local/share/fairlead/token", "../../home/me/.local/share/fairlead"):
        for text in (f"{blank}{path}", f"{path}{blank}", f"{blank}{path}{blank}"):
            verdict = judge(tool, {"file_path": text, "content": ""}, mode=PermissionMode.BYPASS_PERMISSIONS)
            assert (verdict.behavior, verdict.by) == (DENY, "fence")
    assert judge("mcp__x__read", {"path": f"{blank}{DATA}/token"}, allow=["mcp__x"]).behavior is DENY


def test_characters_are_compared_composed_and_as_written() -> None:
    leads = {"/srv/project/caf\u00e9": f"{DATA}/token", "/srv/project/e\u0301": f"{DATA}/token"}
    for path in ("caf\u00e9", "cafe\u0301", " cafe\u0301", "e\u0301"):
        assert judge("Read", {"file_path": path}, resolve=lambda p: leads.get(p, p)).behavior is DENY
    assert judge("Read", {"file_path": "cafe\u0301"}).behavior is ALLOW


@pytest.mark.parametrize(
    "path", ["/proc/self/cwd/x", "/proc/1/environ", "/proc/self/fd/3", "/dev/fd/3", "/proc", "/proc/cpuinfo"]
)
def test_files_of_processes_ask_in_every_mode_and_under_every_rule(path: str) -> None:
    for mode in MODES:
        verdict = judge("Read", {"file_path": path}, mode=mode, allow=["Read", "Read(/proc/**)"], roots=("/",), cwd="/")
        assert (verdict.behavior, verdict.by) == (ASK, "fence")
    assert judge_line(f"cat {path}", allow=["Bash(cat:*)"]).behavior is ASK


def test_the_fence_covers_the_folder_and_root_links_of_processes() -> None:
    for path in (f"/proc/self/root{DATA}/token", f"/proc/7/task/8/root{DATA}", "/proc/self/cwd/share/fairlead"):
        assert judge("Read", {"file_path": path}, cwd="/home/me/.local").behavior is DENY


class TestDisk:
    def test_links_of_processes_are_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("/proc/self/cwd")
        (tmp_path / "b").symlink_to("a/x")
        assert disk.resolve("/proc/self/cwd/x") == "/proc/self/cwd/x"
        assert disk.resolve(f"{tmp_path}/a/x/../y") == "/proc/self/cwd/x/y"
        assert disk.resolve(f"{tmp_path}/b") == "/proc/self/cwd/x"
        assert disk.resolve("/dev/fd/3").startswith("/proc/")

    def test_other_paths_resolve_to_the_real_path(self, tmp_path: Path) -> None:
        real = Path(os.path.realpath(tmp_path))
        (tmp_path / "d/e").mkdir(parents=True)
        (tmp_path / "up").symlink_to("d/e/..")
        (tmp_path / "abs").symlink_to(f"{tmp_path}/d")
        for path in ("up/x", "abs/e/../y", "d/./e//z", "none/../d", "up/../q", "/../..", "abs"):
            full = f"{tmp_path}/{path}"
            assert disk.resolve(full) == os.path.realpath(full)
        assert disk.resolve(f"{tmp_path}/up") == f"{real}/d"

    def test_a_loop_of_links_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(OSError, match="too many links"):
            disk.resolve(f"{tmp_path}/loop")

    def test_the_names_of_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / ".a").touch()
        (tmp_path / "b").mkdir()
        assert sorted(disk.entries(str(tmp_path))) == [".a", "b"]
        with pytest.raises(OSError, match="none"):
            disk.entries(str(tmp_path / "none"))


TREE = {"/w": ["a.py", "b.py", ".hid", "sub", "x1"], "/w/sub": ["c.py", "deep"], "/w/sub/deep": ["d.py"], "/": ["w"]}


def entries(folder: str) -> list[str]:
    found = TREE.get(folder.replace("//", "/"))
    if found is None:
        raise OSError(folder)
    return found


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("plain", {"plain"}),
        ("'a b'\"c\"\\d", {"a bcd"}),
        ("~/x", {"/home/me/x"}),
        ("~+/x", {"/w/x"}),
        ("'~'/x", {"~/x"}),
        ("if=~/$x", {"if=~/1", "if=~/2", "if=/home/me/1", "if=/home/me/2", "if="}),
        ("p=a:~/x", {"p=a:~/x", "p=a:/home/me/x", "p=a:"}),
        ("--p=~/x", {"--p=~/x", "--p="}),
        ("if=~other/x", None),
        ("~other/x", None),
        ("$HOME/x", {"/home/me/x"}),
        ('"${HOME}"/$PWD', {"/home/me//w"}),
        ("$x", {"1", "2"}),
        ("${x:-y}", {"1", "2", "y"}),
        ("${x+y}", {"y", ""}),
        ("$none", None),
        ("${none:-y}", None),
        ("${x%y}", None),
        ("${!x}", None),
        ("$x[1]", None),
        ("$x:h", None),
        ("$two", None),
        ('"$two"', {"a b"}),
        ("$(ls)", None),
        ("`ls`", None),
        ("$((1+2))", None),
        ("<(ls)", set()),
        ("=ls", None),
        ("{a,b}{1..3}", {"a1", "a2", "a3", "b1", "b2", "b3"}),
        ("{a,{b,c}}d", {"ad", "bd", "cd"}),
        ("$x{a,b}", None),
        ("{$x,b}c", None),
        ("${x}{a,b}", {"1a", "1b", "2a", "2b"}),
        ("\"$x\"{a,b}", {"1a", "1b", "2a", "2b"}),
        ("{},a}", None),
        ("{a}b,c}", None),
        ("{{a,b}", None),
        ("{~,a}/x", None),
        ("''~/x", None),
        ("$x\u00e9", None),
        ("$x\\\ny", None),
        ("{}", {"{}"}),
        ("{a}", {"{a}"}),
        ("'{a,b}'", {"{a,b}"}),
        ("{c..a}", {"a", "b", "c"}),
        ("{01..03}", None),
        ("{1..9999}", None),
        ("*.py", {"*.py", "a.py", "b.py"}),
        ("?.py", {"?.py", "a.py", "b.py"}),
        ("[ab].py", {"[ab].py", "a.py", "b.py"}),
        ("[!a].py", {"[!a].py", "a.py", "b.py"}),
        ("[!]x].py", {"[!]x].py", "a.py", "b.py"}),
        ("[]a].py", {"[]a].py", "a.py", "b.py"}),
        ("a[\\].x]py", {"a[].x]py", "a.py"}),
        ("a['!].']py", {"a[!].]py", "a.py"}),
        (".h*", {".h*", ".hid"}),
        ("*/c.py", {"*/c.py", "a.py/c.py", "b.py/c.py", "sub/c.py", "x1/c.py"}),
        ("**/d.py", None),
        ("'*'.py", {"*.py"}),
        ("x^2", {"x^2", "x1"}),
        ("a#.py", {"a#.py", "a.py", "b.py", "sub", "x1"}),
        ("/w/su?/*", {"/w/su?/*", "/w/sub/c.py", "/w/sub/deep"}),
        ("$'a\\x62\\143\\u0064\\n'", {"abcd\n"}),
        ("$'\\cA'", None),
        ("$'\\0'", None),
        ("$'\\xff'", None),
        ("'open", None),
        ('"open', None),
        ("$\"x\"", None),
        ("[x", None),
    ],
)  # fmt: skip
def test_possible_values_of_a_word(raw: str, expected: set[str] | None) -> None:
    variables = {"x": ("1", "2"), "two": ("a b",)}
    found = expand(raw, ExpansionContext(("/w",), "/home/me", variables, entries))
    if raw == "**/d.py":
        assert found is not None
        assert "sub/deep/d.py" in found
    else:
        assert (None if found is None else set(found)) == expected


# Options: every suggested rule, with options that run or write something.

RUNNING = [
    "--output=x", "--outp=x", "--exec=x", "--upload-pack=x", "--open-files-in-pager=x", "--ext-diff", "--textconv", "--config a=b",
    "--no-index x y", "--file=x", "--files0-from=x", "--unknown", "-- --output=x", "-e -- --output=x", "--contents x",
    "--pathspec-from-file=x", "--dereference-recursive",
]  # fmt: skip


@pytest.mark.parametrize("program", sorted(SAFE))
def test_a_suggested_rule_covers_no_option_that_runs_or_writes(program: str) -> None:
    (rule,) = suggest(ToolCall("Bash", {"command": f"{program} x"}), place())
    assert rule.content == f"{program}:*"
    allow = [f"Bash({rule.content})"]
    assert judge_line(f"{program} x", allow=allow).behavior is ALLOW
    for option in RUNNING:
        assert judge_line(f"{program} {option}", allow=allow).behavior is not ALLOW, option
    for name in ("GIT_PAGER", "PAGER", "LD_PRELOAD", "GIT_EXTERNAL_DIFF"):
        assert judge_line(f"{name}=x {program} x", allow=allow).behavior is not ALLOW


def test_no_option_name_is_split_in_two() -> None:
    """The tables are strings over several lines: a name split at the end of a line would become two wrong names."""
    names = {name for options in (*SAFE.values(), *RISKY.values()) for name in options.long} | RISKY_ANYWHERE
    assert [name for name in names if name.startswith("-") or name.endswith("-")] == []


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("git log:*", "git log --output=x"),
        ("git grep:*", "git grep -nO'cmd' x"),
        ("git fetch:*", "git fetch --upload-pack=cmd ."),
        ("git ls-remote:*", "git ls-remote --upload-pack=cmd ."),
        ("git archive:*", "git archive --remote=. --exec=cmd HEAD"),
        ("git clone:*", "git clone -u cmd . x"),
        ("git rebase:*", "git rebase -x cmd HEAD"),
        ("git:*", "git -c core.pager=cmd log"),
        ("git:*", "git config core.pager cmd"),
        ("npm run test:*", "npm run test --script-shell=./evil.sh"),
        ("go test:*", "go test -exec cmd ./..."),
        ("go test:*", "go test --toolexec=cmd"),
        ("go build:*", "go build -o x"),
        ("cargo test:*", "cargo test --config a=b"),
        ("helm template:*", "helm template --post-renderer cmd"),
        ("sort:*", "sort -uo x y"),
        ("sort:*", "sort --compress-program=cmd y"),
        ("sed:*", "sed -i s/a/b/ x"),
        ("sed:*", "sed -ni p x"),
        ("sed:*", "sed 'w x' y"),
        ("sed:*", "sed 1e y"),
        ("sed:*", "sed s/a/b/e y"),
        ("sed:*", "sed -e p -e 'w x' y"),
        ("sed:*", "sed -f x y"),
        ("awk:*", "awk 'BEGIN{system(\"cmd\")}'"),
        ("awk:*", "awk '{print > \"x\"}' y"),
        ("awk:*", "awk '{\"cmd\" | getline}' y"),
        ("tar:*", "tar xf x --to-command=cmd"),
        ("tar:*", "tar -xf x -I cmd"),
        ("tar:*", "tar xIf cmd x"),
        ("rsync:*", "rsync -e cmd a b"),
        ("rsync:*", "rsync -ae cmd a b"),
        ("find:*", "find . -L"),
        ("find:*", "find . -fprintf x y"),
        ("find:*", "find . -delete"),
        ("curl:*", "curl -o x example.org"),
        ("curl:*", "curl -sSLO example.org"),
        ("curl:*", "curl -K x"),
        ("curl:*", "curl --etag-save x example.org"),
        ("curl:*", "curl --ssl-sessions x example.org"),
        ("wget:*", "wget -O x example.org"),
        ("make:*", "make SHELL=cmd"),
        ("make:*", "make -f x"),
        ("rg:*", "rg --pre cmd x"),
        ("rg:*", "rg --follow x"),
        ("ps:*", "ps auxe"),
        ("xargs:*", "xargs rm"),
        ("env:*", "env rm x"),
        ("zip:*", "zip -r x.zip ."),
        ("less:*", "less +!cmd x"),
        ("diff:*", "diff -r a b"),
    ],
)
def test_an_option_that_runs_or_writes_asks_unless_the_rule_names_it(rule: str, line: str) -> None:
    assert judge_line(line, allow=[f"Bash({rule})"]).behavior is ASK
    if not line.startswith(("xargs", "env", "find")):  # their inner commands are judged separately
        assert judge_line(line, allow=[f"Bash({line})"]).behavior is ALLOW
        assert judge_line(f"{line} z", allow=[f"Bash({line}:*)"]).behavior is ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "git log --oneline -5 --stat -- src", "git log -n3 --format=%h --since=yesterday", "git diff HEAD~1 --name-only",
        "git diff --cached -U3", "git show HEAD^ --stat", "git status -sb", "git grep -n 'foo bar' -- src", "git blame -L1,5 x",
        "git branch -a", "git commit -am 'a message'", "git add -A", "git fetch --all --prune", "ls -la src", "ls --color=never",
        "grep -rn foo src", "grep --before-context=2 foo x", "du --one-file-system src", "grep -E 'a|b' --include=*.py -r src", "cat -n x", "head -20 x", "head -n 20 x", "tail -n +5 x",
        "wc -l x y", "diff -u a b", "du -sh src", "stat -c %s x", "cut -d: -f1 x", "tr a-z A-Z", "cd src && ls", "x=a; cat $x.py",
        "for f in a b; do cat $f; done", "cat src/*.py", "cat {a,b}.py", "find . -name '*.py' -type f", "sed -n 1,5p x",
        "sed 's/a/b/g' x", "sed -n '/foo/p' x", "sort -u x", "awk '{print $1}' x", "curl -fsSL https://example.org/x", "tar xzf x.tgz",
        "go test ./... -run X", "cargo test --release", "npm run test -- --watch", "make -j8 all", "rg -n foo src", "ps aux",
        "ps -ef", "git push -u origin x", "git switch -c x", "cat < x", "cat x 2>/dev/null", "cat x | grep y | wc -l",
    ],
)  # fmt: skip
def test_everyday_lines_are_allowed_without_asking(line: str) -> None:
    programs = [
        "cat",
        "ls",
        "grep",
        "find",
        "cd",
        "head",
        "tail",
        "wc",
        "diff",
        "du",
        "stat",
        "cut",
        "tr",
        "sed",
        "sort",
        "awk",
    ]
    more = ["curl", "tar", "go test", "cargo test", "npm run test", "make", "rg", "ps", "git push", "git switch"]
    git = [name for name in SAFE if name.startswith("git ")]
    allow = [f"Bash({name}:*)" for name in (*programs, *more, *git)]
    assert judge_line(line, allow=allow).behavior is ALLOW, judge_line(line, allow=allow).reason


# Above a closed folder, and the gateway's port.


@pytest.mark.parametrize(
    "line",
    [
        "grep -r x ~",
        "find ~ -name x",
        "ls -R /home",
        "du ~",
        "tar cf x.tar ~",
        "rg x ~",
        "cp -r ~ x",
        "mytool ~",
        "cd ~ && find",
    ],
)
def test_a_program_that_descends_from_above_a_closed_folder_asks(line: str) -> None:
    programs = ("grep", "find", "ls", "du", "tar", "rg", "cp", "mytool", "cd")
    allow = [f"Bash({name}:*)" for name in programs]
    assert judge_line(line, allow=allow).behavior is ASK
    assert judge_line(line.replace("~", "src").replace("/home", "src"), allow=allow).behavior is ALLOW


@pytest.mark.parametrize("line", ["ls ~", "cat ~/notes", "grep x ~/notes", "head ~/x", "cd ~ && ls"])
def test_a_program_that_does_not_descend_is_allowed_without_asking(line: str) -> None:
    assert judge_line(line, allow=[f"Bash({n}:*)" for n in ("ls", "cat", "grep", "head", "cd")]).behavior is ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "curl localhost:08765", "p=8765; curl localhost:$p", "curl localhost:[8765-8765]", "curl 'localhost:{1,8765}'",
        "curl localhost:\uff18\uff17\uff16\uff15", "nc localhost 8764-8766", "nc localhost 08765", "h=localhost; curl $h:8765",
    ],
)  # fmt: skip
def test_the_port_in_other_spellings_is_denied(line: str) -> None:
    for rules in (["Bash(curl:*)", "Bash(nc:*)"], ["Bash"]):
        assert judge_line(line, allow=rules).behavior is DENY


@pytest.mark.parametrize(
    "line", ["curl localhost:$((8764+1))", "nc example.org 8765", "curl x:$p", "tool --listen 8765"]
)
def test_a_value_that_may_be_the_port_asks(line: str) -> None:
    assert judge_line(line, allow=["Bash(curl:*)", "Bash(nc:*)", "Bash(tool:*)"]).behavior is ASK


# Files that make programs run commands.


@pytest.mark.parametrize(
    "path",
    [
        ".bashrc", ".profile", ".zshenv", ".ssh/authorized_keys", ".gitconfig", ".git/hooks/pre-commit", ".husky/pre-push", ".envrc",
        ".npmrc", ".claude/settings.json", ".mcp.json", ".config/systemd/user/x.service", ".config/autostart/x.desktop",
        ".gemini/settings.json", ".codex/config.toml", "opencode.json", ".config/opencode/opencode.json",
        ".local/bin/x", ".config/fish/config.fish", ".GIT/config", "sub/.git/config", ".vscode/tasks.json", "crontabs/root",
    ],
)  # fmt: skip
def test_files_that_make_programs_run_commands_are_not_written_without_asking(path: str) -> None:
    everything = ["Bash(echo:*)", "Bash(cp:*)", "Bash(tee:*)", "Edit(./**)", "Write(**)", "Edit"]
    for mode in (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS):
        assert judge("Write", {"file_path": path, "content": ""}, mode=mode, allow=everything).behavior is ASK
        for line in (f"echo x > {path}", f"cp x {path}", f"echo x | tee {path}", f"echo x >> ./{path}"):
            assert judge_line(line, mode=mode, allow=everything).behavior is ASK
    assert judge("Write", {"file_path": path, "content": ""}, allow=[f"Edit({path})"]).behavior is ALLOW
    assert place().is_protected(f"/srv/project/{path}")


def test_after_the_agent_changed_its_folder_paths_are_judged_in_both_folders() -> None:
    leads = {"/srv/project/sub/link": f"{DATA}/token"}
    context = replace(
        place(allow=["Bash(cat:*)"], resolve=lambda path: leads.get(path, path)), moved="/srv/project/sub"
    )
    assert decide(ToolCall("Bash", {"command": "cat link"}), context).behavior is DENY
    assert decide(ToolCall("Read", {"file_path": "link"}), context).behavior is DENY
    assert decide(ToolCall("Read", {"file_path": "other"}), context).behavior is ALLOW
    assert decide(ToolCall("Bash", {"command": "cat ../x"}), replace(context, moved="/srv")).behavior is ALLOW


def test_git_in_a_folder_that_looks_like_a_bare_repository_asks() -> None:
    names = {"/srv/project/bare": ["HEAD", "objects", "refs", "config"], "/srv/project": [".git", "bare"]}

    def listed(folder: str) -> list[str]:
        return names.get(folder, [])

    where: dict[str, Any] = {"allow": ["Bash(git status:*)", "Bash(git:*)", "Bash(cd:*)"], "entries": listed}
    assert judge_line("git status", **where).behavior is ALLOW
    for line in ("cd bare && git status", "git -C bare status", "cd bare/refs; git status"):
        assert judge_line(line, **where).behavior is ASK
