"""`fairlead serve` as a process: its start, the address that it publishes, its shutdown and its restart."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli.cli_processes import Server, Terminal, background
from cli.conftest import Fairlead
from patience import PATIENCE

TLS = Path(__file__).resolve().parents[1] / "server" / "tls"


def lines_of(process: "subprocess.Popen[str]") -> tuple[int, list[dict[str, Any]], str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_serve_prints_its_address_and_shuts_down_cleanly(server: Server, how: signal.Signals) -> None:
    server.start()
    token = server.data / "admin-token"
    assert token.stat().st_mode & 0o077 == 0
    assert (server.data / "server.json").stat().st_mode & 0o077 == 0
    secret = token.read_text().strip()
    code, output = server.end(how)
    assert code == 0
    for part in (
        f"http://127.0.0.1:{server.port}",
        str(server.data),
        "demo",
        "fairlead login",
        "fairlead run",
        "Stopped.",
    ):
        assert part in output
    assert secret not in output
    assert "#login=" not in output, "a log gets no link"
    assert not (server.data / "server.json").exists()


def test_on_a_terminal_serve_prints_a_link_that_signs_a_browser_in_once(server: Server) -> None:
    words = ("serve", "--agent", "demo", "--port", str(server.port))
    with Terminal(server.env, server.project, *words) as terminal:
        terminal.wait_for("#login=")
        terminal.wait_for("Ctrl-C stops the gateway.")
        code = re.search(r"#login=(\S+)", terminal.text)
        assert code is not None
        url = f"http://127.0.0.1:{server.port}/v1/login"
        answers = [httpx2.post(url, json={"code": code[1], "name": "x"}, trust_env=False) for _ in range(2)]
        assert [answer.is_success for answer in answers] == [True, False]
        terminal.type("\x03")
        assert terminal.end() == 0


def test_second_gateway_on_the_same_folder_is_refused_and_names_the_first(server: Server) -> None:
    first = server.start()
    second = background(server.env, server.project, "serve", "--agent", "demo", "--port", "0")
    _, err = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2
    assert str(first.pid) in err
    assert "Traceback" not in err


def test_port_in_use_exits_2(server: Server) -> None:
    with socket.create_server(("127.0.0.1", server.port)):
        process = server.start()
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "--port" in err
    assert "Traceback" not in err


def test_door_is_printed_and_serves_the_front_end(server: Server) -> None:
    site = server.project / "site"
    site.mkdir()
    (site / "index.html").write_text("front end")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server.start("--door", f"native={port},static={site}")
    token = (server.data / "admin-token").read_text().strip()
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        assert client.get("/").text == "front end"
        assert client.get("/v1/me").status_code == 401
        assert client.get("/v1/me", headers={"authorization": f"Bearer {token}"}).status_code == 200
    code, output = server.end(signal.SIGTERM)
    assert code == 0
    assert f"native at http://127.0.0.1:{port}, with the files of {site}" in output


def test_a_door_in_the_settings_file_is_opened(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[door.native]\nport = 0\n")
    server.start("--config", str(file))
    assert "  door     native at http://127.0.0.1:" in server.end(signal.SIGTERM)[1]


@pytest.mark.parametrize(
    ("doors", "message"),
    [
        (["cognovo=1"], "no protocol has this name"),
        (["native=PORT"], "the main port already"),
        (["native=TAKEN"], "--door native=PORT"),
        (["native=0,static=/nowhere"], "/nowhere is not a folder"),
        (["native=0,static=DATA"], "the data folder"),
        (["native"], "NAME=PORT is expected"),
        (["native=x"], "NAME=PORT is expected"),
        (["=1"], "NAME=PORT is expected"),
        (["native=70000"], "Expected `int` <= 65535"),
        (["native=1", "native=2"], "already has a door, on port 1"),
        (["native=1,listing=yes"], "does not have the option listing; its options are: static, public_url"),
        (["native=1,static="], "'static=' is not an option"),
        (["native=1,"], "'' is not an option"),
        (["native=0,public_url=gw.example"], "https://name[:port] is expected"),
    ],
)
def test_impossible_door_exits_2_and_prints_the_reason(
    server: Server, fairlead: Fairlead, doors: list[str], message: str
) -> None:
    server.data.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = {"PORT": server.port, "TAKEN": taken.getsockname()[1], "DATA": server.data}
        for word, value in words.items():
            doors = [door.replace(f"={word}", f"={value}") for door in doors]
        options = ("--agent", "demo", "--port", str(server.port), "--data", str(server.data))
        done = fairlead("serve", *options, *(part for door in doors for part in ("--door", door)))
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_over_tls_the_own_gateway_is_trusted_and_another_must_be_verified(
    server: Server, fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.start("--tls-cert", str(TLS / "cert.pem"), "--tls-key", str(TLS / "key.pem"))
    assert fairlead("run", "SCRIPT:text tls", "--cwd", str(server.project), "--data", str(server.data)).code == 0
    elsewhere = ("ls", "--url", f"https://localhost:{server.port}", "--data", str(server.data))
    refused = fairlead(*elsewhere)
    assert refused.code == 3
    assert "SSL_CERT_FILE" in refused.err
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))
    assert fairlead(*elsewhere).code == 0


def test_token_of_the_environment_is_accepted(
    server: Server, fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.env["FAIRLEAD_TOKEN"] = "given-by-the-environment"
    server.start()
    assert server.url is not None
    monkeypatch.setenv("FAIRLEAD_URL", server.url)
    assert fairlead("ls", "--token", "given-by-the-environment").code == 0
    assert fairlead("ls", "--token", "another").code == 4
    _, output = server.end(signal.SIGINT)
    assert "given-by-the-environment" not in output


@pytest.mark.fault
def test_run_continues_after_a_killed_gateway_without_gaps_or_duplicates(server: Server, fairlead: Fairlead) -> None:
    server.start()
    run = background(server.env, server.project, "run", "--json", "SCRIPT:slow 16")
    assert run.stdout is not None
    first = run.stdout.readline()
    session = json.loads(first)["session"]
    seen = [json.loads(first)]
    while seen[-1]["type"] != "text.delta":
        seen.append(json.loads(run.stdout.readline()))
    server.end(signal.SIGKILL)
    server.start()
    code, rest, err = lines_of(run)
    events = [*seen, *rest]
    seqs = [event["seq"] for event in events]
    assert code == 0, err
    assert seqs == sorted(set(seqs))
    assert "The gateway is back." in err
    assert events[-1]["type"] == "turn.ended"
    (text,) = [event["text"] for event in events if event["type"] == "text"]
    assert text == "tick " * 16
    logged = {event["seq"]: event for event in fairlead("logs", session, "--json", "--data", str(server.data)).lines}
    # All printed events are in the log, except for the deltas of a block that is complete.
    printed = [event for event in events if event["type"] != "record" and not event["type"].endswith(".delta")]
    # `prev` names the entry before this one as of now, and those deltas are deleted.
    assert [{**logged[event["seq"]], "prev": 0} for event in printed] == [{**event, "prev": 0} for event in printed]


@pytest.mark.fault
def test_text_of_a_run_is_printed_once_although_the_gateway_was_killed(server: Server) -> None:
    server.start()
    run = background(server.env, server.project, "run", "--no-quiet", "SCRIPT:slow 16")
    assert run.stdout is not None
    assert run.stderr is not None
    shown = run.stdout.read(len("tick tick"))
    server.end(signal.SIGKILL)
    server.start()
    with run:
        shown += run.stdout.read()
        assert run.wait(PATIENCE) == 0, run.stderr.read()
    assert shown.replace("\n", "").startswith("tick " * 16 + "— completed")


@pytest.mark.fault
def test_answer_to_a_request_that_is_gone_does_not_end_the_run(server: Server) -> None:
    """The agent outlives its gateway, but its request does not: the run continues until the turn really ends."""
    server.start()
    with Terminal(server.env, server.project, "run", "SCRIPT:bash echo one") as terminal:
        terminal.wait_for("Allow?")
        server.end(signal.SIGKILL)
        terminal.wait_for("The gateway does not answer")
        terminal.type("y\n")
        terminal.wait_for("asked again when it is back")
        server.start()
        terminal.wait_for("The gateway is back.")
        terminal.wait_for("agent lost its gateway")
        terminal.wait_for("completed")
        assert terminal.end() == 0


def test_closed_output_pipe_ends_the_command_quietly(server: Server, fairlead: Fairlead) -> None:
    server.start()
    session = fairlead(
        "run", "--json", "SCRIPT:long 200", "--cwd", str(server.project), "--data", str(server.data)
    ).lines[0]["session"]
    logs = background(server.env, server.project, "logs", session, "-f", "--json")
    assert logs.stdout is not None
    assert logs.stderr is not None
    logs.stdout.readline()
    logs.stdout.close()
    assert fairlead("send", session, "SCRIPT:long 200", "--data", str(server.data)).code == 0
    with logs:
        assert logs.stderr.read() == ""
        assert logs.wait(PATIENCE) == 1


def test_follower_without_a_terminal_does_not_interrupt_the_turn(server: Server, fairlead: Fairlead) -> None:
    server.start()
    run = background(server.env, server.project, "run", "--json", "--wait", "SCRIPT:bash echo one")
    assert run.stdout is not None
    session = json.loads(run.stdout.readline())["session"]
    attach = background(server.env, server.project, "attach", session, "--json")
    assert attach.stdout is not None
    # The turn waits for this permission until the other process has started.
    while json.loads(attach.stdout.readline())["type"] != "permission.asked":
        pass
    attach.send_signal(signal.SIGINT)
    attach.communicate(timeout=PATIENCE)
    assert attach.returncode == 130
    assert fairlead("permit", session, "--allow", "--data", str(server.data)).code == 0
    code, lines, err = lines_of(run)
    assert code == 0, err
    assert lines[-1]["status"] == "completed"


@pytest.mark.fault
def test_logs_follow_the_events_of_another_client(server: Server, fairlead: Fairlead) -> None:
    server.start()
    session = fairlead(
        "run", "--json", "SCRIPT:text one", "--cwd", str(server.project), "--data", str(server.data)
    ).lines[0]["session"]
    logs = background(server.env, server.project, "logs", session, "-f", "--json")
    assert logs.stdout is not None
    ends = 0
    while not ends:
        ends += json.loads(logs.stdout.readline())["type"] == "turn.ended"
    assert fairlead("send", session, "SCRIPT:text two", "--data", str(server.data)).code == 0
    texts = []
    while ends < 2:
        event = json.loads(logs.stdout.readline())
        ends += event["type"] == "turn.ended"
        texts += [event["text"]] if event["type"] == "text" else []
    assert texts == ["Hello from the scripted model. two"]
    logs.send_signal(signal.SIGINT)
    logs.communicate(timeout=PATIENCE)
    assert logs.returncode == 130


def test_with_json_every_line_on_standard_error_is_json_and_a_run_leaves_normally(
    server: Server, fairlead: Fairlead
) -> None:
    server.start("--log-format", "json")
    ran = fairlead("run", "SCRIPT:text hello", "--data", str(server.data), "--cwd", str(server.project))
    assert ran.code == 0, ran.err
    code, output = server.end(signal.SIGTERM)
    lines = [json.loads(line) for line in output.splitlines()]
    events = [line["event"] for line in lines]
    assert code == 0
    assert "serving" in events and events[-1] == "stopped"
    left = [line["code"] for line in lines if line["event"] == "disconnect"]
    assert left and set(left) == {1000}, "1011 would be an error of the gateway"


@pytest.mark.parametrize("more", [("--host", "0.0.0.0"), ("--port", "99999"), ("--door", "nobody=1")])
def test_with_json_a_failed_start_is_a_line_of_json_too(server: Server, more: tuple[str, str]) -> None:
    process = background(server.env, server.project, "serve", "--agent", "demo", "--log-format", "json", *more)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert [json.loads(line)["event"] for line in err.splitlines()][-1] == "not started", err


def test_the_hints_of_the_banner_work_as_they_are_printed(server: Server, tmp_path: Path) -> None:
    """Without `fairlead` in PATH, and with another data folder than the usual one."""
    program = Path(sys.executable).parent / "fairlead"
    env = {**server.env, "PATH": "/usr/bin:/bin"}
    options = ("--agent", "demo", "--port", "0", "--data", str(server.data), "--roots", str(server.project))
    del env["FAIRLEAD_DATA"]
    process = subprocess.Popen(
        [os.path.relpath(program, server.project), "serve", *options],
        env=env,
        cwd=server.project,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    banner = []
    for line in process.stderr:
        banner.append(line.strip())
        if "Ctrl-C" in line:
            break
    hints = [line.removeprefix("browser ").partition(" prints")[0].strip() for line in banner if " --data " in line]
    assert len(hints) == 3, banner
    try:
        for hint in hints:
            if "run" in hint.split():
                continue
            ran = subprocess.run(["sh", "-c", hint], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, (hint, ran.stderr)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
