"""Commands that need no gateway, and the errors of all others without one."""

import json
import os
import socket
import sqlite3
import stat
from pathlib import Path

import pytest

from cli.conftest import Fairlead
from fairlead.cli.commands.data_folder import cutoff
from fairlead.cli.output import ago, size
from fairlead.client.errors import UsageError

SESSION = "00000000-0000-4000-8000-000000000000"
NEEDING = [
    ("run", "x"),
    ("ls",),
    ("attach", SESSION),
    ("send", SESSION, "x"),
    ("permit", SESSION, "--allow"),
    ("logs", SESSION),
    ("search", "x"),
    ("trust", "--list"),
    ("login",),
    ("token", "add", "x"),
    ("token", "ls"),
    ("token", "revoke", "x"),
    ("user", "add", "x"),
    ("user", "list"),
    ("user", "remove", "x"),
    ("user", "invite"),
    ("prune", "--older-than", "1d"),
    ("drain",),
    ("drain", "--cancel"),
]


@pytest.mark.parametrize("words", NEEDING, ids=" ".join)
def test_without_a_gateway_exit_3_and_how_to_start_one(words: tuple[str, ...], fairlead: Fairlead) -> None:
    ran = fairlead(*words)
    assert ran.code == 3
    assert "fairlead serve" in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("words", NEEDING, ids=" ".join)
def test_a_gateway_that_does_not_answer_is_exit_3(words: tuple[str, ...], fairlead: Fairlead) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert fairlead(*words, "--url", f"http://127.0.0.1:{port}", "--token", "x").code == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "  "), "prompt is empty"),
        (("send", SESSION, " "), "empty"),
        (("permit", SESSION, "--allow", "--deny"), "not both"),
        (("permit", SESSION, "--deny", "--remember", "Bash"), "--allow"),
        (("prune",), "--older-than"),
        (("prune", "--older-than", "soon"), "30d"),
        (("prune", "--before", "yesterday"), "2025-01-31"),
        (("token", "add", "x", "--scope", "root"), "view, chat"),
        (("ls", "--url", "gateway"), "http://127.0.0.1:7433"),
        (("run", "x", "--yes-to", "Bash("), "bracket"),
        (("serve", "--port", "70000"), "port"),
        (("serve", "--on-stop", "explode"), "detach"),
        (("drain", "--timeout", "soon"), "10m"),
        (("serve", "--agent", "robot"), "robot"),
        (("serve", "--host", "0.0.0.0", "--port", "0"), "--insecure-lan"),
        (("serve", "--config", "no/such.toml"), "does not exist"),
        (("config", "show", "--config", "no/such.toml"), "does not exist"),
    ],
)
def test_usage_error_is_explained_and_exits_2(
    words: tuple[str, ...], says: str, fairlead: Fairlead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = fairlead(*words, *(("--data", str(tmp_path / "data")) if words[0] == "serve" else ()))
    assert ran.code == 2
    assert says in ran.err


def test_unknown_setting_is_reported_with_a_suggestion(fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_PROT", "1")
    ran = fairlead("ls")
    assert ran.code == 2
    assert "Did you mean port?" in ran.err


def test_config_show_prints_the_source_of_each_setting(
    fairlead: Fairlead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        'max_agents = 3\n[mcp.tickets]\ncommand = "tickets"\nargs = ["--key=s3cret-arg"]\nenv = {KEY = "s3cret-env"}\n'
        '[mcp.web]\ntype = "http"\nurl = "https://user:s3cret-url@web.example/?k=s3cret-query"\n'
    )
    monkeypatch.setenv("FAIRLEAD_PORT", "9000")
    ran = fairlead("config", "show", "--config", str(file), "--json", "--data", str(tmp_path))
    found = {line["name"]: line for line in ran.lines}
    assert (found["port"]["value"], found["port"]["source"]) == (9000, "environment FAIRLEAD_PORT")
    assert (found["max_agents"]["value"], found["max_agents"]["source"]) == (3, f"file {file}")
    assert found["data"]["source"] == "command line"
    assert found["host"]["source"] == "default"
    shown = ran.out + fairlead("config", "show", "--config", str(file)).out
    assert "tickets" in shown
    assert "s3cret" not in shown


def test_doctor_prints_problems_and_exits_1(fairlead: Fairlead, tmp_path: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    file = tmp_path / "settings.toml"
    file.write_text(
        f'port = {taken.getsockname()[1]}\nroots = ["{tmp_path}/nothing"]\nagent = "claude"\nclaude = "/no/claude"\n'
    )
    with taken:
        ran = fairlead("doctor", "--json", "--config", str(file), "--data", str(tmp_path / "data"))
    found = {line["what"]: line for line in ran.lines}
    assert ran.code == 1
    assert found["port"]["level"] == "bad"
    assert "--port" in found["port"]["todo"]
    assert found["claude"]["level"] == "bad"
    assert "npm install" in found["claude"]["todo"]
    assert found["sessions may work in"]["level"] == "bad"
    assert not (tmp_path / "data").exists()


def test_doctor_prints_the_ways_to_drive_a_cli(fairlead: Fairlead, tmp_path: Path) -> None:
    fake = tmp_path / "claude"
    fake.write_text('#!/bin/sh\necho "2.1.325 (Claude Code)"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    file = tmp_path / "settings.toml"
    file.write_text(f'port = 0\nclaude = "{fake}"\nroots = ["{tmp_path}"]\n')
    ran = fairlead("doctor", "--config", str(file), "--data", str(tmp_path / "data"))
    assert ran.code == 0
    assert f"2.1.325 at {fake}" in ran.out
    assert "claude by stdio: yes" in ran.out
    assert "claude by dial-in: no" in ran.out
    assert "sessions run: claude" in ran.out


@pytest.mark.linux
@pytest.mark.parametrize(
    ("setting", "program", "level", "words"),
    [
        ("auto", "bwrap", "ok", "do not see the gateway"),
        ("off", "bwrap", "warn", "none (it is off): agents, terminals and plugins can read the data folder"),
        (
            "auto",
            "no-such-program",
            "warn",
            "none (bubblewrap (bwrap) is not installed): agents, terminals and plugins",
        ),
        ("require", "no-such-program", "bad", "required, but not available"),
    ],
)
def test_doctor_prints_what_an_agent_can_reach(
    fairlead: Fairlead,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    program: str,
    level: str,
    words: str,
) -> None:
    monkeypatch.setattr("fairlead.system.sandbox.PROGRAM", program)
    file = tmp_path / "settings.toml"
    file.write_text(f'port = 0\nroots = ["{tmp_path}"]\nsandbox = "{setting}"\n')
    ran = fairlead("doctor", "--json", "--config", str(file), "--data", str(tmp_path / "data"))
    (found,) = [line for line in ran.lines if line["what"] == "sandbox"]
    assert (found["level"], words in found["found"]) == (level, True), found
    assert ran.code == (1 if level == "bad" else 0)
    assert not (tmp_path / "data").exists()


def test_doctor_names_a_bad_setting(fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_PORT", "many")
    ran = fairlead("doctor")
    assert ran.code == 1
    assert "FAIRLEAD_PORT" in ran.out


def test_doctor_lists_the_scripts(fairlead: Fairlead) -> None:
    names = {line["name"] for line in fairlead("doctor", "--scripts", "--json").lines}
    assert {"text", "long", "think", "tool", "write", "question", "plan", "slow", "subagent", "crash"} <= names
    assert "SCRIPT:write <path>" in fairlead("doctor", "--scripts").out


def test_du_and_backup_report_a_damaged_data_folder(fairlead: Fairlead, tmp_path: Path) -> None:
    (tmp_path / "fairlead.db").write_bytes(b"this is not a database" * 100)
    for words in (("du",), ("backup", str(tmp_path / "b.db"))):
        ran = fairlead(*words, "--data", str(tmp_path))
        assert ran.code == 2
        assert "fairlead.db" in ran.err
        assert "Traceback" not in ran.err


def test_restore_refuses_a_file_that_is_not_a_backup(fairlead: Fairlead, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("create table t (x)")
    db.close()
    ran = fairlead("restore", str(other), "--data", str(tmp_path / "data"))
    assert ran.code == 2
    assert not (tmp_path / "data" / "fairlead.db").exists()


def test_local_commands_do_not_print_the_token_of_the_environment(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "s3cret")
    for words in (("config", "show"), ("config", "show", "--json"), ("doctor", "--json")):
        ran = fairlead(*words)
        assert "s3cret" not in ran.out + ran.err


def test_ages_and_dates() -> None:
    now = 1_700_000_000.0
    assert cutoff(None, "2d", now) == int((now - 2 * 86400) * 1000)
    assert cutoff("2023-01-01T00:00:00+00:00", None, now) == 1_672_531_200_000
    bad: list[tuple[str | None, str | None]] = [(None, None), ("2023-01-01", "1d"), ("2999-01-01", None)]
    for before, older_than in bad:
        with pytest.raises(UsageError):
            cutoff(before, older_than, now)


def test_formatting_of_times_and_sizes() -> None:
    assert [ago(0), ago(10_000, 10_000), ago(10_000, 40_000), ago(1, 7_200_000)] == [
        "never",
        "now",
        "30 s ago",
        "1 h ago",
    ]
    assert [size(999), size(1500), size(2_500_000)] == ["999 B", "1.5 kB", "2.5 MB"]


def test_json_lines_are_one_line_each_whatever_is_in_them(
    fairlead: Fairlead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_PUBLIC_URL", "https://x.example/\n\x1b]52;c;eA==\x07")
    out = fairlead("config", "show", "--json").out
    assert "\x1b" not in out
    assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
    assert os.linesep in out
