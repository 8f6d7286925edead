"""`fairlead hook` as a real process: fast, patient while the gateway is running, and a denial when it is not."""

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.claude_driver.hook_harness import (
    SESSION,
    HookHarness,
    HookProcess,
    decided,
    open_hook_harness,
    run_hook,
    tool_use,
)
from cli.conftest import Fairlead
from fairlead.agents.claude.stdio.tool_hooks import deny
from fairlead.agents.claude.tui import hook_server
from fairlead.agents.claude.tui.hook_server import HookEndpoint
from fairlead.agents.claude.wire.control import HookAnswer
from fairlead.cli import hook as program
from fairlead.server.listeners import Binding
from fairlead_testing.clock import ManualClock
from patience import PATIENCE

TLS = Path(__file__).parents[1] / "server" / "tls"


class Decider:
    """Records its requests, and denies once `go` is set."""

    def __init__(self) -> None:
        self.given: list[Mapping[str, Any]] = []
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, given: Mapping[str, Any]) -> HookAnswer:
        self.given.append(given)
        self.asked.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.ended.set()
            raise
        return deny("by a person")


@pytest.fixture
def decider() -> Decider:
    return Decider()


@pytest.fixture
async def harness() -> AsyncIterator[HookHarness]:
    async with open_hook_harness() as opened:
        yield opened


async def soon(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), PATIENCE)


async def in_a_shell(endpoint: HookEndpoint) -> HookProcess:
    """Run the hook in a shell, as the CLI does."""
    pipe = asyncio.subprocess.PIPE
    shell = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        hook_server.command("pre-tool-use"),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=endpoint.variables,
    )
    return HookProcess(shell, json.dumps(tool_use()).encode())


# --- with a gateway --------------------------------------------------------------------------------------------


async def test_answer_is_printed_when_it_arrives(harness: HookHarness, decider: Decider) -> None:
    endpoint = harness.open({"pre-tool-use": decider})
    ran = await run_hook("pre-tool-use", tool_use(), endpoint.variables)
    await soon(decider.asked)
    assert ran.process.returncode is None, "it waits"
    decider.go.set()
    code, answer = await ran.end()
    assert (code, decided(answer)) == (0, ("deny", "by a person"))
    assert decider.given == [tool_use()]
    await endpoint.close("over")


async def test_large_call_is_passed_on_completely(harness: HookHarness, decider: Decider) -> None:
    endpoint = harness.open({"pre-tool-use": decider})
    decider.go.set()
    given = tool_use(tool="Write", content="é" * (5 << 20))
    assert (await (await run_hook("pre-tool-use", given, endpoint.variables)).end())[0] == 0
    assert decider.given == [given]
    await endpoint.close("over")


async def test_over_tls_the_gateway_s_own_certificate_is_trusted_and_no_other(decider: Decider) -> None:
    binding = Binding(port=0, tls_cert=TLS / "cert.pem", tls_key=TLS / "key.pem")
    decider.go.set()
    async with open_hook_harness(binding=binding) as harness:
        endpoint = harness.open({"pre-tool-use": decider})
        trusting = await run_hook("pre-tool-use", tool_use(), endpoint.variables)
        assert decided((await trusting.end())[1]) == ("deny", "by a person")
        strange = await run_hook(
            "pre-tool-use", tool_use("toolu_2"), {**endpoint.variables, "FAIRLEAD_HOOK_CERT": ""}, patience=0
        )
        decision, reason = decided((await strange.end())[1])
        assert decision == "deny" and "certificate" in reason
        assert len(decider.given) == 1
        await endpoint.close("over")


async def test_proxies_of_the_environment_are_not_used(harness: HookHarness, decider: Decider) -> None:
    endpoint = harness.open({"pre-tool-use": decider})
    decider.go.set()
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"), "http://127.0.0.1:1")
    ran = await run_hook("pre-tool-use", tool_use(), {**endpoint.variables, **proxies})
    assert decided((await ran.end())[1]) == ("deny", "by a person")
    await endpoint.close("over")


async def test_notification_hook_prints_nothing(harness: HookHarness, decider: Decider) -> None:
    endpoint = harness.open({"stop": decider})
    decider.go.set()
    ran = await run_hook("session-end", {"hook_event_name": "SessionEnd"}, endpoint.variables)
    assert await ran.end() == (0, {})
    await endpoint.close("over")


async def test_python_files_of_the_project_are_not_run(harness: HookHarness, decider: Decider, tmp_path: Path) -> None:
    """The CLI runs hooks in the project's folder."""
    for name in ("json.py", "socket.py", "fairlead/__init__.py", "fairlead/cli/hook.py", "sitecustomize.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("print('{}'); raise SystemExit(0)\n")
    endpoint = harness.open({"pre-tool-use": decider})
    decider.go.set()
    ran = await run_hook("pre-tool-use", tool_use(), {**endpoint.variables, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path)
    assert decided((await ran.end())[1]) == ("deny", "by a person")
    await endpoint.close("over")


# --- without a gateway -------------------------------------------------------------------------------------------


GATEWAY = """
import asyncio, json
from agents.claude_driver.hook_harness import open_hook_harness

async def main():
    async def think(given):
        print("asked", flush=True)
        await asyncio.Event().wait()

    async with open_hook_harness() as home:
        print(json.dumps(home.open({"pre-tool-use": think}).variables), flush=True)
        await home.done

asyncio.run(main())
"""


@pytest.mark.fault
async def test_gateway_killed_during_a_request_results_in_a_denial() -> None:
    gateway = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", GATEWAY),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert gateway.stdout is not None
    variables = json.loads(await asyncio.wait_for(gateway.stdout.readline(), PATIENCE))
    ran = await run_hook("pre-tool-use", tool_use(), variables, patience=0.5)
    assert await asyncio.wait_for(gateway.stdout.readline(), PATIENCE) == b"asked\n"
    gateway.kill()
    await gateway.communicate()
    code, answer = await ran.end()
    assert code == 0
    decision, reason = decided(answer)
    assert decision == "deny" and "does not answer" in reason


async def test_gateway_stopped_during_a_request_results_in_a_denial(harness: HookHarness, decider: Decider) -> None:
    endpoint = harness.open({"pre-tool-use": decider})
    ran = await run_hook("pre-tool-use", tool_use(), endpoint.variables, patience=0.5)
    await soon(decider.asked)
    await harness.stop()
    code, answer = await ran.end()
    assert code == 0
    decision, reason = decided(answer)
    assert decision == "deny" and "does not answer" in reason
    await endpoint.close("over")


async def test_restarted_gateway_is_asked_again(decider: Decider) -> None:
    """The new gateway does not know the token: the agent belonged to the gateway that died."""
    async with open_hook_harness() as first:
        endpoint = first.open({"pre-tool-use": decider})
        ran = await run_hook("pre-tool-use", tool_use(), endpoint.variables)
        await soon(decider.asked)
        await first.stop()
        async with open_hook_harness(port=first.port):
            code, answer = await ran.end()
        assert code == 0
        decision, reason = decided(answer)
        assert decision == "deny" and "refused" in reason
        await endpoint.close("over")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "are not set"),
        ({"FAIRLEAD_HOOK_URL": "http://127.0.0.1:1/v1/hooks/x"}, "are not set"),
        ({"FAIRLEAD_HOOK_URL": "file:///etc/passwd", "FAIRLEAD_HOOK_TOKEN": "t"}, "not the address"),
        ({"FAIRLEAD_HOOK_URL": "http://127.0.0.1:1/v1/hooks/x", "FAIRLEAD_HOOK_TOKEN": "t"}, "does not answer"),
        ({"FAIRLEAD_HOOK_URL": "http://127.0.0.1:99999/x", "FAIRLEAD_HOOK_TOKEN": "t"}, "could not decide"),
    ],
)
async def test_tool_is_denied_when_no_gateway_can_be_asked(variables: dict[str, str], words: str) -> None:
    code, answer = await (await run_hook("pre-tool-use", tool_use(), variables, patience=0)).end()
    assert code == 0
    decision, reason = decided(answer)
    assert decision == "deny" and words in reason
    assert await (await run_hook("stop", {}, variables, patience=0)).end() == (0, None)


async def test_a_wrong_token_is_denied_at_once(harness: HookHarness, decider: Decider) -> None:
    endpoint = harness.open({"pre-tool-use": decider})
    ran = await run_hook("pre-tool-use", tool_use(), {**endpoint.variables, "FAIRLEAD_HOOK_TOKEN": "wrong"})
    decision, reason = decided((await ran.end())[1])
    assert decision == "deny" and "credential" in reason
    assert decider.given == []
    await endpoint.close("over")


async def test_malformed_input_is_denied(harness: HookHarness, decider: Decider) -> None:
    endpoint = harness.open({"pre-tool-use": decider})
    for given in (b"", b"{", b"[]", b"\xff"):
        ran = await run_hook("pre-tool-use", given, endpoint.variables)
        code, answer = await ran.end()
        assert (code, decided(answer)[0]) == (0, "deny"), given
    assert decider.given == []
    await endpoint.close("over")


@pytest.mark.fault
async def test_hook_and_its_request_end_when_the_cli_is_gone(decider: Decider) -> None:
    """A hook whose shell was killed sees that its parent has changed, and exits; its request ends as well."""
    clock = ManualClock()
    async with open_hook_harness(clock) as harness:
        endpoint = harness.open({"pre-tool-use": decider})
        shell = await in_a_shell(endpoint)
        await soon(decider.asked)
        shell.process.kill()
        assert await shell.end() == (-signal.SIGKILL, None), "the hook itself has ended too"
        while not clock.waiting:
            await asyncio.sleep(0.01)
        await clock.advance(hook_server.GONE_SECONDS)
        await soon(decider.ended)
        await endpoint.close("over")


@pytest.mark.fault
async def test_killed_hook_blocks_its_tool(harness: HookHarness, decider: Decider) -> None:
    """The shell exits with 2: after any other code the older CLIs run the tool."""
    endpoint = harness.open({"pre-tool-use": decider})
    shell = await in_a_shell(endpoint)
    await soon(decider.asked)
    pid = shell.process.pid
    children = await asyncio.to_thread(Path(f"/proc/{pid}/task/{pid}/children").read_text)
    os.kill(int(children.split()[0]), signal.SIGKILL)
    assert await shell.end() == (2, None)
    await endpoint.close("over")


# --- a fake gateway with arbitrary responses -----------------------------------------------------------------------


@pytest.fixture
def answering() -> Iterator[Callable[..., str]]:
    """Start a server that sends these answers, one per connection, and closes; returns its address."""
    listeners = []

    def serve(*answers: bytes, received: list[bytes] | None = None) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def speak() -> None:
            # The listener is closed when the test ends.
            with contextlib.suppress(OSError):
                for answer in answers:
                    connection, _ = listener.accept()
                    # The client may disconnect before the answer.
                    with connection, contextlib.suppress(OSError):
                        request = read_request(connection)
                        if received is not None:
                            received.append(request)
                        connection.sendall(answer)

        threading.Thread(target=speak, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1/hooks/{SESSION}"

    yield serve
    for listener in listeners:
        listener.close()


def read_request(connection: socket.socket) -> bytes:
    """Read a whole request: head and body may arrive in separate packets."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(1 << 16) or b"\r\n\r\n"
    length = re.search(rb"content-length: (\d+)", request, re.IGNORECASE)
    missing = int(length[1]) - len(request.partition(b"\r\n\r\n")[2]) if length else 0
    while missing > 0 and (more := connection.recv(missing)):
        request, missing = request + more, missing - len(more)
    return request


def decision_of(url: str, monkeypatch: pytest.MonkeyPatch, patience: float = 0.0) -> tuple[str, str]:
    monkeypatch.setenv(program.URL, url)
    monkeypatch.setenv(program.TOKEN, "t")
    out = io.BytesIO()
    assert program.run("pre-tool-use", io.BytesIO(json.dumps(tool_use()).encode()), out, patience=patience) == 0
    return decided(json.loads(out.getvalue()))


def response(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body


ALLOWED = b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n" + ALLOWED,
        response(200, ALLOWED)[:-1],
        response(200, ALLOWED) + b" ",
        b"HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
        b"SSH-2.0-OpenSSH\r\n",
        response(200, b"<html>"),
        response(200, b"[]"),
        response(200, b""),
        response(204, b""),
        response(302, ALLOWED),
        response(404, ALLOWED),
        response(503, ALLOWED),
        response(401, b'{"error":{}}'),
    ],
)
def test_any_incomplete_or_foreign_answer_is_a_denial(
    answering: Callable[..., str], monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    assert decision_of(answering(answer), monkeypatch)[0] == "deny"


def test_broken_connection_and_starting_gateway_are_retried(
    answering: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = answering(b"", response(503, b"{}"), response(429, b"{}"), response(200, ALLOWED))
    assert decision_of(url, monkeypatch, patience=60)[0] == "allow"


def test_input_over_the_limit_is_denied(answering: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_BYTES", 10)
    decision, reason = decision_of(answering(response(200, ALLOWED)), monkeypatch)
    assert decision == "deny" and "larger than" in reason


def test_answer_that_cannot_be_written_blocks_the_tool(
    answering: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(io.BytesIO):
        def write(self, data: Any) -> int:
            raise BrokenPipeError

    monkeypatch.setenv(program.URL, answering(response(200, ALLOWED)))
    monkeypatch.setenv(program.TOKEN, "t")
    assert program.run("pre-tool-use", io.BytesIO(b"{}"), Closed()) == program.BLOCKED


def test_request_without_a_decision_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(program, "LOOK_S", 0.01)
        gateway = program.HookGateway(f"http://127.0.0.1:{silent.getsockname()[1]}", "t")
        with pytest.raises(program.HookFailed, match="time to decide"):
            gateway.ask("pre-tool-use", b"{}", 60, longest=0.05)


# --- a CLI that was started by hand -------------------------------------------------------------------------------


def start_of_session(monkeypatch: pytest.MonkeyPatch, **variables: str) -> tuple[int, bytes]:
    for name, value in {"HOME": "/nonexistent", **variables}.items():
        monkeypatch.setenv(name, value)
    out = io.BytesIO()
    code = program.run("session-start", io.BytesIO(b'{"session_id": "s"}'), out)
    return code, out.getvalue()


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, bytes]]:
    """Run the hook of a session that the gateway did not start; returns its exit code and its output."""
    for name in (program.URL, program.TOKEN, "FAIRLEAD_URL", "FAIRLEAD_TOKEN", "FAIRLEAD_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return lambda **variables: start_of_session(monkeypatch, **variables)


def test_session_start_is_sent_to_the_gateway_that_other_commands_use(
    answering: Callable[..., str], by_hand: Callable[..., tuple[int, bytes]], tmp_path: Path
) -> None:
    received: list[bytes] = []
    address = answering(*[response(200, b'{"session": "s", "listed": false}')] * 2, received=received).partition("/v1")[
        0
    ]
    assert by_hand(FAIRLEAD_URL=address, FAIRLEAD_TOKEN="t1") == (0, b""), "the CLI is told nothing"
    (tmp_path / "server.json").write_text(json.dumps({"url": address, "pid": os.getpid()}))
    (tmp_path / "admin-token").write_text("t2")
    os.environ.pop("FAIRLEAD_URL")
    os.environ.pop("FAIRLEAD_TOKEN")
    assert by_hand(FAIRLEAD_DATA=str(tmp_path)) == (0, b"")
    for request, token in zip(received, (b"t1", b"t2"), strict=True):
        assert request.startswith(b"POST /v1/hooks/session-start HTTP/1.1\r\n")
        assert b"\r\nauthorization: Bearer %s\r\n" % token in request
        assert request.endswith(b'\r\n\r\n{"session_id": "s"}')


def test_session_starts_without_a_gateway(
    answering: Callable[..., str], by_hand: Callable[..., tuple[int, bytes]], tmp_path: Path
) -> None:
    assert by_hand(FAIRLEAD_DATA=str(tmp_path)) == (0, b"")
    for address in ("http://127.0.0.1:1", "nonsense", answering(response(403, b"{}")).partition("/v1")[0]):
        assert by_hand(FAIRLEAD_URL=address, FAIRLEAD_TOKEN="t") == (0, b"")


# --- the cost of the hook, and the command around it ----------------------------------------------------------------


def test_hook_imports_no_heavy_modules() -> None:
    """Tests the cost of a hook, which runs before every tool, without measuring time."""
    code = "import sys; import fairlead.cli.hook; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-P", "-E", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    for heavy in ("asyncio", "http.client", "email", "ssl", "typer", "rich", "httpx2", "msgspec", "subprocess"):
        assert heavy not in loaded


def test_constants_of_both_sides_are_the_same() -> None:
    assert (program.URL, program.TOKEN, program.CERTIFICATE, program.DELIVERY) == (
        hook_server.URL_VARIABLE,
        hook_server.TOKEN_VARIABLE,
        hook_server.CERTIFICATE_VARIABLE,
        hook_server.DELIVERY,
    )
    assert {program.DECIDING, program.STARTING} <= hook_server.EVENTS.keys()
    assert program.LONGEST_S < hook_server.LONGEST_SECONDS


def test_the_settings_to_copy_are_json_with_this_installation_s_command(fairlead: Fairlead) -> None:
    ran = fairlead("hook", "--print-settings")
    assert ran.code == 0
    (own,) = json.loads(ran.out)["hooks"]["SessionStart"]
    assert own["hooks"][0]["command"] == hook_server.command("session-start")


@pytest.mark.parametrize("words", [(), ("stop", "--print-settings")])
def test_exactly_one_of_event_and_print_settings_is_required(fairlead: Fairlead, words: tuple[str, ...]) -> None:
    assert fairlead("hook", *words).code == 2


def test_hook_command_of_the_cli_is_the_same_program() -> None:
    line = "from fairlead.cli.main import main; main()"
    env = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    ran = subprocess.run(
        [sys.executable, "-c", line, "hook", "pre-tool-use"], input=b"{}", capture_output=True, env=env, check=False
    )
    assert ran.returncode == 0
    decision, reason = decided(json.loads(ran.stdout))
    assert decision == "deny" and "are not set" in reason


def test_program_requires_one_event() -> None:
    ran = subprocess.run([sys.executable, "-m", "fairlead.cli.hook"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2, "which blocks a tool"
    assert "usage: fairlead hook EVENT" in ran.stderr
