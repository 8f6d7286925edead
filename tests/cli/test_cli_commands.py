"""The commands against a real gateway with the demo agent: their output and their exit codes."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from cli.conftest import CliGateway, Fairlead
from review.repositories import git, repository


def new_session(fairlead: Fairlead, prompt: str = "SCRIPT:text hello") -> str:
    ran = fairlead("run", "--json", prompt)
    return str(ran.lines[0]["session"])


def test_run_prints_the_answer_and_exits_0(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("run", "--no-quiet", "SCRIPT:text hello")
    assert ran.code == 0
    assert ran.out.startswith("Hello from the scripted model. hello\n— completed")
    assert "session " in ran.err


def test_run_in_a_worktree_of_a_branch(fairlead: Fairlead, gateway: CliGateway) -> None:
    project = repository(gateway.project / "repository")
    ran = fairlead("run", "--cwd", str(project), "--worktree", "fix/import", "--base", "main", "hello")
    assert ran.code == 0, ran.err
    tree = project / ".worktrees" / "fix-import"
    assert str(tree) in ran.err
    assert git(tree, "branch", "--show-current") == b"fix/import\n"
    assert fairlead("run", "--base", "main", "hello").code == 2
    assert fairlead("run", "--session", "x", "--worktree", "fix", "hello").code == 2
    refused = fairlead("run", "--cwd", str(project), "--worktree", "no..branch", "hello")
    assert refused.code != 0
    assert "not a name for a branch" in refused.err


def test_run_json_is_one_event_a_line_from_the_first_to_the_end_of_the_turn(
    fairlead: Fairlead, gateway: CliGateway
) -> None:
    ran = fairlead("run", "--json", "SCRIPT:text hello")
    lines = ran.lines
    assert ran.code == 0
    assert [line["seq"] for line in lines] == sorted({line["seq"] for line in lines})
    assert lines[0]["type"] == "session.opened"
    assert lines[-1]["type"] == "turn.ended"
    assert {line["session"] for line in lines} == {lines[0]["session"]}


def test_a_failed_turn_exits_1(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("run", "--no-quiet", "SCRIPT:error 400")
    assert ran.code == 1
    assert "— failed" in ran.out


def test_a_crashed_agent_exits_1(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("run", "SCRIPT:crash")
    assert ran.code == 1


def test_a_permission_without_a_terminal_exits_1_and_says_how_to_answer(
    fairlead: Fairlead, gateway: CliGateway
) -> None:
    ran = fairlead("run", "SCRIPT:write a.txt")
    assert ran.code == 1
    assert "fairlead permit" in ran.err
    session = fairlead("ls", "--json").lines[0]["session"]
    assert fairlead("permit", session, "--allow").code == 0
    followed = fairlead("run", "SCRIPT:read a.txt", "--session", session)
    assert followed.code == 0
    assert (gateway.project / "a.txt").read_text() == "hello\nworld\n"


def test_yes_to_allows_only_what_the_rule_covers(fairlead: Fairlead, gateway: CliGateway) -> None:
    assert fairlead("run", "SCRIPT:bash echo one", "--yes-to", "Bash(echo:*)").code == 0
    ran = fairlead("run", "SCRIPT:bash echo one; touch stolen", "--yes-to", "Bash(echo:*)")
    assert ran.code == 1
    assert not (gateway.project / "stolen").exists()


def test_permit_denies_with_a_reason_that_reaches_the_agent(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead, "SCRIPT:write b.txt")
    assert fairlead("permit", session, "--deny", "--message", "not today").code == 0
    fairlead("run", "SCRIPT:text after", "--session", session)
    assert "not today" in fairlead("logs", session).out
    assert not (gateway.project / "b.txt").exists()


def test_permit_remembers_a_rule_for_the_session(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead, "SCRIPT:bash echo one")
    assert fairlead("permit", session, "--allow", "--remember", "Bash(echo:*)").code == 0
    assert fairlead("run", "SCRIPT:bash echo two", "--session", session).code == 0


def test_permit_answers_a_question_by_its_header(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead, "SCRIPT:question")
    assert fairlead("permit", session, "--allow").code == 2
    assert fairlead("permit", session, "--answer", "Colour=2").code == 0
    fairlead("run", "SCRIPT:text after", "--session", session)
    assert '"Which colour?"="Blue"' in fairlead("logs", session).out


def test_permit_without_a_pending_request_exits_5(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("permit", new_session(fairlead), "--allow")
    assert ran.code == 5
    assert "No request is pending" in ran.err


def test_permit_lists_pending_requests_as_json(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead, "SCRIPT:write c.txt")
    (asked,) = fairlead("permit", session, "--json").lines
    assert asked["type"] == "permission.asked"
    assert fairlead("permit", session, "--deny", "--request", asked["request"]).code == 0


def test_a_session_is_named_by_a_prefix(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead)
    assert fairlead("logs", session[:13]).code == 0
    assert fairlead("logs", session[:3]).code == 2
    assert fairlead("logs", "../../v1/tokens").code == 2
    missing = fairlead("logs", "0000dead")
    assert missing.code == 5
    assert "fairlead ls" in missing.err


def test_an_unknown_session_exits_5(fairlead: Fairlead, gateway: CliGateway) -> None:
    for words in (("logs",), ("attach",), ("permit",), ("send",)):
        text = ("hi",) if words == ("send",) else ()
        assert fairlead(*words, "00000000-0000-4000-8000-000000000000", *text).code == 5


def test_logs_since_a_position_prints_the_events_after_it(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead)
    whole = fairlead("logs", session, "--json").lines
    rest = fairlead("logs", session, "--json", "--since", str(whole[2]["seq"])).lines
    assert rest == whole[3:]
    assert all({"seq", "session", "type"} <= line.keys() for line in whole)


def test_logs_show_prompt_answer_and_cost(fairlead: Fairlead, gateway: CliGateway) -> None:
    shown = fairlead("logs", new_session(fairlead, "SCRIPT:think")).out
    assert "> SCRIPT:think" in shown
    assert "Let me think about this carefully.\nI thought about it.\n— completed" in shown


def test_send_is_idempotent_by_its_id(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead)
    message = "7B0C9A52-2F6E-4C55-9D5E-0F6F0F9F1C11"
    (first,) = fairlead("send", session, "SCRIPT:text once", "--id", message, "--json").lines
    (second,) = fairlead("send", session, "SCRIPT:text once", "--id", message, "--json").lines
    assert second == {**first, "repeated": True}
    assert fairlead("send", session, "x", "--id", "no-uuid").code == 2


def test_steering_without_a_turn_is_refused(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("send", new_session(fairlead), "x", "--steer")
    assert ran.code == 1
    assert "No turn is running" in ran.err


def test_ls_and_search_find_a_session(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead, "SCRIPT:text xylophone")
    listed = fairlead("ls", "--search", "xylophone")
    assert session[:8] in listed.out
    assert listed.out.splitlines()[0].split() == ["ID", "STATE", "USED", "TURNS", "COST", "AGENT", "FOLDER", "TITLE"]
    assert [line["session"] for line in fairlead("ls", "--search", "xylophone", "--json").lines] == [session]
    found = fairlead("search", "xylophone", "--json", "--session", session)
    assert found.code == 0


def test_new_session_has_the_given_title_and_folder(fairlead: Fairlead, gateway: CliGateway) -> None:
    folder = gateway.project / "inner"
    folder.mkdir(exist_ok=True)
    ran = fairlead("run", "SCRIPT:text x", "--cwd", "inner", "--title", "Named", "--json")
    assert ran.lines[0]["cwd"] == os.path.realpath(folder)
    assert ran.lines[0]["title"] == "Named"


def sessions_of(fairlead: Fairlead) -> set[str]:
    """The ids alone: the gateway is shared, and sessions of earlier tests may still be ending."""
    return {line["session"] for line in fairlead("ls", "--json").lines}


def test_folder_outside_the_roots_is_refused_as_an_option_and_as_the_current_folder(
    fairlead: Fairlead, gateway: CliGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = fairlead("run", "SCRIPT:text x", "--cwd", str(tmp_path))
    assert ran.code == 4
    assert "--roots" in ran.err
    before = sessions_of(fairlead)
    monkeypatch.chdir(tmp_path)
    ran = fairlead("run", "SCRIPT:text x", "--json")
    assert (ran.code, ran.out) == (4, "")
    assert str(tmp_path) in ran.err and "--roots" in ran.err and "--cwd" in ran.err
    assert sessions_of(fairlead) == before, "nothing was begun"


def test_input_that_is_not_utf8_is_read_with_replacement_characters(
    fairlead: Fairlead, gateway: CliGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "SCRIPT:text caf\xe9 \xfc".encode("latin-1")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
    ran = fairlead("run", "-")
    assert ran.code == 0
    assert "caf\ufffd \ufffd" in ran.out
    assert "not UTF-8" in ran.err and "Traceback" not in ran.err
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO("SCRIPT:text café \ufffd".encode()), encoding="ascii")
    )
    ran = fairlead("run", "-")
    assert "café \ufffd" in ran.out and "not UTF-8" not in ran.err
    assert "caf\ufffd" in fairlead("run", os.fsdecode(b"SCRIPT:text caf\xe9")).out
    before = sessions_of(fairlead)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b" \n"), encoding="utf-8"))
    assert fairlead("run", "-").code == 2
    assert sessions_of(fairlead) == before


def test_unknown_mode_exits_2(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("run", "SCRIPT:text x", "--mode", "nonsense")
    assert ran.code == 2
    assert "nonsense" in ran.err


def test_session_continues_in_another_mode(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead)
    ran = fairlead("run", "SCRIPT:write plain.txt", "--session", session, "--mode", "acceptEdits", "--json")
    assert ran.code == 0
    assert (gateway.project / "plain.txt").exists()


def test_options_of_a_new_session_are_refused_for_an_existing_one(fairlead: Fairlead, gateway: CliGateway) -> None:
    assert fairlead("run", "x", "--session", "abcd", "--title", "T").code == 2


def test_tokens_are_made_shown_once_listed_and_revoked(fairlead: Fairlead, gateway: CliGateway) -> None:
    made = fairlead("token", "add", "ci", "--scope", "view,chat")
    secret = made.out.strip()
    assert made.code == 0
    assert secret
    (listed,) = [line for line in fairlead("token", "ls", "--json").lines if line["name"] == "ci"]
    assert sorted(listed["scopes"]) == ["chat", "view"]
    assert secret not in fairlead("token", "ls").out
    allowed = fairlead("ls", "--token", secret)
    assert allowed.code == 0
    assert fairlead("token", "ls", "--token", secret).code == 4
    assert fairlead("token", "revoke", listed["id"]).code == 0
    refused = fairlead("ls", "--token", secret)
    assert refused.code == 4
    assert "FAIRLEAD_TOKEN" in refused.err
    assert fairlead("token", "revoke", "nonesuch").code == 5
    assert fairlead("token", "add", "x", "--scope", "everything").code == 2


def test_run_with_a_wrong_token_exits_4(fairlead: Fairlead, gateway: CliGateway) -> None:
    assert fairlead("run", "SCRIPT:text x", "--token", "wrong").code == 4
    assert fairlead("logs", "00000000-0000-4000-8000-000000000000", "-f", "--token", "wrong").code == 4


def test_login_prints_a_link_with_the_code_in_its_fragment(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("login", "--name", "phone")
    assert ran.code == 0
    assert ran.out.startswith(f"{gateway.running.url}/#login=")
    assert set(fairlead("login", "--json").lines[0]) == {"url", "code", "expires", "qr"}


def test_users_are_added(fairlead: Fairlead, gateway: CliGateway) -> None:
    assert fairlead("user", "add", "ann").code == 0
    assert fairlead("login", "--user", "ann").code == 0
    assert fairlead("login", "--user", "nobody-of-that-name").code != 0


def test_a_folder_is_trusted_after_its_settings_were_shown(fairlead: Fairlead, gateway: CliGateway) -> None:
    folder = gateway.project / "hooked"
    (folder / ".claude").mkdir(parents=True)
    hooks = {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "echo \u001b]52;c;eA==\u0007"}]}]}
    (folder / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    asked = fairlead("trust", str(folder))
    assert asked.code == 2
    assert "echo" in asked.out
    assert "\x1b" not in asked.out
    assert str(folder) not in fairlead("trust", "--list").out
    assert fairlead("trust", str(folder), "--yes").code == 0
    assert str(folder) in fairlead("trust", "--list").out
    assert fairlead("trust", str(folder), "--remove").code == 0
    assert fairlead("trust", str(folder), "--remove").code == 5
    assert fairlead("trust").code == 2


def test_backup_while_it_runs_then_restore_elsewhere(fairlead: Fairlead, gateway: CliGateway, tmp_path: Path) -> None:
    new_session(fairlead)
    target = tmp_path / "backup.db"
    assert fairlead("backup", str(target)).code == 0
    assert target.stat().st_mode & 0o077 == 0
    again = fairlead("backup", str(target))
    assert again.code == 2
    assert "exists" in again.err
    elsewhere = tmp_path / "restored"
    assert fairlead("restore", str(target), "--data", str(elsewhere)).code == 0
    refused = fairlead("restore", str(target), "--data", str(elsewhere))
    assert refused.code == 1
    assert "--force" in refused.err
    assert fairlead("restore", str(target), "--data", str(elsewhere), "--force").code == 0
    running = fairlead("restore", str(target), "--force")
    assert running.code == 2
    assert "in use" in running.err
    assert fairlead("restore", str(tmp_path / "nothing")).code == 5
    assert fairlead("backup", str(tmp_path / "no" / "folder.db")).code == 2
    assert fairlead("backup", str(tmp_path / "x.db"), "--data", str(tmp_path / "empty")).code == 5


def test_du_prints_sizes_by_kind_and_by_session(fairlead: Fairlead, gateway: CliGateway, tmp_path: Path) -> None:
    session = new_session(fairlead)
    lines = fairlead("du", "--json", "--top", "1000").lines
    assert {"kind", "bytes"} == set(lines[0])
    assert {"large records", "uploads"} <= {line.get("kind") for line in lines}
    assert session in {line.get("session") for line in lines}
    assert "WHAT" in fairlead("du").out
    assert fairlead("du", "--data", str(tmp_path)).code == 5


def test_prune_deletes_old_sessions_only_with_yes(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = new_session(fairlead, "SCRIPT:text prune")
    assert fairlead("prune", "--older-than", "1h", "--yes").code == 0
    assert fairlead("logs", session).code == 0
    looked = fairlead("prune", "--older-than", "0h", "--dry-run", "--json")
    assert session in {line["session"] for line in looked.lines}
    assert fairlead("logs", session).code == 0
    unasked = fairlead("prune", "--older-than", "0h")
    assert unasked.code == 2
    assert "--yes" in unasked.err
    done = fairlead("prune", "--older-than", "0h", "--yes", "--json")
    assert {"session": session, "deleted": True} in done.lines
    assert fairlead("logs", session).code == 5


def test_doctor_finds_the_gateway_and_the_demo_agent(fairlead: Fairlead, gateway: CliGateway) -> None:
    findings = {line["what"]: line for line in fairlead("doctor", "--json").lines}
    assert findings["gateway"]["level"] == "ok"
    assert findings["token"]["level"] == "ok"
    assert findings["demo agent"]["level"] == "ok"
    assert "sqlite" in findings


def test_output_of_an_agent_never_reaches_the_terminal_as_an_escape_sequence(
    fairlead: Fairlead, gateway: CliGateway
) -> None:
    prompt = "SCRIPT:text \x1b]52;c;ZXZpbA==\x07[bold]plain[/bold]\x1b[2J \x1b]8;;https://evil.example/\x1b\\link\x1b]8;;\x1b\\"
    session = new_session(fairlead, prompt)
    for words in (("run", prompt), ("logs", session), ("ls",), ("search", "plain"), ("du",)):
        ran = fairlead(*words)
        assert "\x1b" not in ran.out + ran.err, words
        assert "\x07" not in ran.out + ran.err, words
    assert "[bold]plain[/bold]" in fairlead("logs", session).out
