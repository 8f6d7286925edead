"""`fairlead stop` and `fairlead drain`: what they signal, what they wait for, what they print."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli.cli_processes import Server, background
from cli.conftest import CliGateway, Fairlead
from fairlead.cli.commands.stop import changed_lines, parse_time
from fairlead.cli.own_gateway import _left
from fairlead.client.errors import UsageError
from fairlead.keeper.client import ProcessSpec, connect, connect_or_start
from fairlead.model.ids import SessionId
from fairlead.sessions.api.operation import GatewayState, WorkingSession
from fairlead.system.clock import SystemClock
from fairlead.system.proctable import Process, is_alive, start_mark
from patience import PATIENCE

STATE = GatewayState(state="running", working=(), agents=0, kept=0, terminals=0, queued=0, on_stop="end")


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Rest:
    """Calls of a gateway's process over REST, as admin."""

    def __init__(self, server: Server) -> None:
        self._url = server.url or ""
        self._token = (server.data / "admin-token").read_text().strip()

    def request(self, method: str, path: str, body: Any = None, token: str = "") -> httpx2.Response:
        headers = {"authorization": f"Bearer {token or self._token}"}
        with httpx2.Client(base_url=self._url, headers=headers, trust_env=False, timeout=PATIENCE) as client:
            return client.request(method, path, json=body)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.request(method, path, body)
        assert answer.is_success, answer.text
        return answer.json()

    def state(self) -> Any:
        return self.call("GET", "/v1/gateway")

    def session(self, server: Server, text: str) -> str:
        """Open a session, and wait until it works on the message."""
        session = str(self.call("POST", "/v1/sessions", {"cwd": str(server.project), "text": text})["session"])
        until(lambda: [one["work"] for one in self.state()["working"]] == [["a running turn"]], "the turn began")
        return session

    def send(self, session: str, text: str) -> Any:
        return self.call("POST", f"/v1/sessions/{session}/messages", {"text": text})


@pytest.fixture
def rest(server: Server) -> Rest:
    """The calls of a gateway that ends its agents itself."""
    server.start()
    return Rest(server)


def ended(server: Server) -> tuple[int, str]:
    """Wait for the gateway's end; return its exit code and its output."""
    assert server.process is not None
    out, err = server.process.communicate(timeout=PATIENCE)
    code, server.process = server.process.returncode, None
    return code, out + err


# --- stop -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [(), ("--agents",)], ids=["alone", "with agents"])
def test_stop_ends_the_gateway_and_reports_its_agents(
    server: Server, rest: Rest, fairlead: Fairlead, option: tuple[str, ...]
) -> None:
    rest.session(server, "SCRIPT:slow 4000")
    assert server.process is not None
    pid = server.process.pid
    ran = fairlead("stop", "--data", str(server.data), *option)
    assert (ran.code, ran.out) == (0, "")
    assert f"Stopping the gateway of {server.data} (process {pid})" in ran.err
    assert "Stopped. Ended with it: 1 agent." in ran.err
    assert start_mark(pid) == ""
    code, output = ended(server)
    assert (code, "Stopped." in output) == (0, True)
    assert not (server.data / "server.json").exists()


def test_stop_without_a_gateway_exits_3(fairlead: Fairlead, tmp_path: Path) -> None:
    for option in ((), ("--agents",)):
        ran = fairlead("stop", "--data", str(tmp_path), *option)
        assert ran.code == 3
        assert f"No gateway runs on {tmp_path}" in ran.err


def test_a_gateway_inside_another_program_is_not_signalled(gateway: CliGateway, fairlead: Fairlead) -> None:
    for option in ((), ("--agents",)):
        ran = fairlead("stop", *option)
        assert ran.code == 1
        assert "inside another program" in ran.err
    assert fairlead("ls").code == 0


@pytest.fixture
def other() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is not a gateway."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def write_server_file(data: Path, **facts: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    (data / "server.json").write_text(json.dumps({"url": url, "alone": True, **facts}))
    (data / "admin-token").write_text("fl_x")


def test_a_process_that_got_the_number_of_a_dead_gateway_is_not_signalled(
    fairlead: Fairlead, tmp_path: Path, other: "subprocess.Popen[bytes]"
) -> None:
    write_server_file(tmp_path, pid=other.pid, started="another-boot/1")
    assert fairlead("stop", "--data", str(tmp_path)).code == 3
    write_server_file(tmp_path, pid=other.pid)
    ran = fairlead("stop", "--data", str(tmp_path))
    assert (ran.code, "did not record when it started" in ran.err) == (1, True)
    assert other.poll() is None


@pytest.mark.parametrize("option", [(), ("--agents",)], ids=["alone", "with agents"])
def test_a_gateway_that_does_not_answer_is_signalled(
    fairlead: Fairlead, tmp_path: Path, other: "subprocess.Popen[bytes]", option: tuple[str, ...]
) -> None:
    write_server_file(tmp_path, pid=other.pid, started=start_mark(other.pid))
    ran = fairlead("stop", "--data", str(tmp_path), *option)
    assert ran.code == 0
    assert "It does not answer: No gateway answers at" in ran.err
    assert other.wait(PATIENCE) == -signal.SIGTERM


def test_stop_with_agents_ends_what_a_keeper_holds_without_a_gateway(fairlead: Fairlead, tmp_path: Path) -> None:
    async def leave(tag: dict[str, Any]) -> Process:
        """Leave a running process to the keeper, as a gateway does that detaches."""
        keeper = await connect_or_start(tmp_path, SystemClock())
        spec = ProcessSpec(argv=[sys.executable, "-c", "input()"], env={}, cwd="/", tag=tag)
        child = await keeper.spawn(spec)
        await keeper.close()
        return Process(child.pid, child.started)

    async def forget() -> list[Any]:
        """Act as the next gateway: take note of the exits, and let the keeper end."""
        keeper = await connect(tmp_path, SystemClock())
        tags = []
        for child in keeper.found:
            await child.wait()
            tags.append(child.tag)
            child.forget()
        await keeper.close(quit=True)
        return tags

    left = [asyncio.run(leave({"session": name})) for name in ("one", "two")]
    ran = fairlead("stop", "--agents", "--data", str(tmp_path))
    assert ran.code == 0
    assert "Ending what the keeper holds: 2 agents and terminals" in ran.err
    assert not any(is_alive(*process) for process in left)
    assert asyncio.run(forget()) == [{"session": "one"}, {"session": "two"}]
    assert fairlead("stop", "--agents", "--data", str(tmp_path)).code == 3


def ends_with_agents(server: Server, fairlead: Fairlead, ended_with_it: str) -> None:
    """Stop the gateway with its agents; the keeper then holds nothing, and ends."""
    ran = fairlead("stop", "--agents", "--data", str(server.data))
    assert (ran.code, ended_with_it in ran.err) == (0, True), ran.err
    assert ended(server)[0] == 0
    until(lambda: not (server.data / "keeper-1.sock").exists(), "the keeper ended")


def test_a_turn_goes_on_over_a_stop_and_a_start(server: Server, fairlead: Fairlead) -> None:
    server.start("--keeper")
    rest = Rest(server)
    session = rest.session(server, "SCRIPT:slow 4000")
    ran = fairlead("stop", "--data", str(server.data))
    assert ran.code == 0
    assert "Stopped. Running on without it: 1 agent." in ran.err
    code, output = ended(server)
    assert (code, "Stopped. Running on without it: 1 agent." in output) == (0, True)
    server.start("--keeper")
    again = Rest(server)
    (working,) = again.state()["working"]
    assert (working["session"], working["work"]) == (session, ["a running turn"])
    ends_with_agents(server, fairlead, "Ended with it: 1 agent.")


def test_agents_that_a_gateway_left_are_ended_and_the_next_gateway_records_it(
    server: Server, fairlead: Fairlead
) -> None:
    server.start("--keeper")
    session = Rest(server).session(server, "SCRIPT:slow 4000")
    assert fairlead("stop", "--data", str(server.data)).code == 0
    assert ended(server)[0] == 0
    ran = fairlead("stop", "--agents", "--data", str(server.data))
    assert (ran.code, "Ending what the keeper holds: 1 " in ran.err) == (0, True)
    server.start("--keeper")
    again = Rest(server)
    until(lambda: not again.state()["working"], "the turn is over")
    events = str(again.call("GET", f"/v1/sessions/{session}/events"))
    assert "agent.exited" in events and "turn.ended" in events
    ends_with_agents(server, fairlead, "Stopped.")


def test_a_drain_ends_the_agents_at_the_keeper(server: Server, fairlead: Fairlead) -> None:
    server.start("--keeper")
    rest = Rest(server)
    session = rest.session(server, "SCRIPT:slow 4000")
    rest.call("POST", f"/v1/sessions/{session}/interrupt")
    assert fairlead("drain", "--data", str(server.data)).code == 0
    assert ended(server)[0] == 0
    until(lambda: not (server.data / "keeper-1.sock").exists(), "the keeper ended")


def test_agents_that_go_on_are_counted_with_the_command_that_ends_them() -> None:
    assert _left(None, agents=False) == _left(STATE, agents=False) == ""
    state = GatewayState(state="running", working=(), agents=3, kept=2, terminals=1, queued=0, on_stop="detach")
    text = _left(state, agents=False)
    assert "Running on without it: 2 agents and 1 terminal." in text
    assert "fairlead stop --agents" in text
    assert _left(state, agents=True) == " Ended with it: 3 agents and 1 terminal."


# --- drain ----------------------------------------------------------------------------------------------------


def test_drain_waits_for_the_turn_and_keeps_messages_for_the_next_start(
    server: Server, rest: Rest, fairlead: Fairlead
) -> None:
    session = rest.session(server, "SCRIPT:slow 4000")
    draining = background(server.env, server.project, "drain")
    until(lambda: bool(rest.state()["state"] == "draining"), "it drains")
    assert rest.send(session, "SCRIPT:text later")["data"] == {"draining": True}
    sent = fairlead("send", session, "SCRIPT:text last", "--data", str(server.data))
    assert "The gateway is draining: the message is queued" in sent.err
    state = rest.state()
    assert [working["session"] for working in state["working"]] == [session]
    assert (state["queued"], draining.poll()) == (2, None)
    rest.call("POST", f"/v1/sessions/{session}/interrupt")
    _, err = draining.communicate(timeout=PATIENCE)
    assert draining.returncode == 0, err
    title = f"  {session[:8]}  SCRIPT:slow 4000: "
    lines = err.splitlines()
    assert any(line.startswith(f"{title}a running turn (turn began ") for line in lines), err
    assert lines[-1] == "Stopped."
    assert ended(server)[0] == 0
    server.start()
    again = Rest(server)
    until(lambda: "last" in str(again.call("GET", f"/v1/sessions/{session}/messages")), "the queue went on")


def test_an_idle_gateway_is_stopped_at_once(server: Server, rest: Rest, fairlead: Fairlead) -> None:
    ran = fairlead("drain", "--data", str(server.data))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.endswith("Stopped.\n")
    assert ended(server)[0] == 0


def test_ctrl_c_and_a_timeout_leave_the_drain_on_until_it_is_taken_back(
    server: Server, rest: Rest, fairlead: Fairlead
) -> None:
    data = ("--data", str(server.data))
    rest.session(server, "SCRIPT:slow 4000")
    late = fairlead("drain", "--timeout", "0s", *data)
    assert (late.code, "The drain goes on." in late.err) == (1, True)
    first, second = (background(server.env, server.project, "drain") for _ in range(2))
    for command in (first, second):
        assert command.stderr is not None
        while "a running turn" not in (line := command.stderr.readline()):
            assert line, "the command ended"
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=PATIENCE)
    assert (first.returncode, "fairlead drain --cancel" in err) == (130, True)
    assert rest.state()["state"] == "draining"
    cancelled = fairlead("drain", "--cancel", *data)
    assert (cancelled.code, "starts turns again" in cancelled.err) == (0, True)
    _, err = second.communicate(timeout=PATIENCE)
    assert (second.returncode, "taken back" in err) == (1, True)
    assert rest.state()["state"] == "running"
    assert "was not draining" in fairlead("drain", "--cancel", *data).err
    assert server.end(signal.SIGTERM)[0] == 0


def test_only_an_admin_may_stop_or_drain(rest: Rest) -> None:
    body = {"name": "phone", "scopes": ["view", "chat", "approve", "terminal"]}
    secret = rest.call("POST", "/v1/tokens", body)["secret"]
    for method, path in (("GET", ""), ("POST", "/drain"), ("DELETE", "/drain"), ("POST", "/stop")):
        assert rest.request(method, f"/v1/gateway{path}", token=secret).status_code == 403


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("2H", 7200), ("0s", 0)])
def test_times_of_a_drain(text: str, seconds: int) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "-1s", "1d", "1.5h"])
def test_a_wrong_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="90s, 10m and 2h"):
        parse_time(text)


def test_a_timeout_and_a_cancel_exclude_each_other(fairlead: Fairlead) -> None:
    assert fairlead("drain", "--cancel", "--timeout", "1m").code == 2


def test_only_changes_of_the_work_are_printed() -> None:
    def working(session: str, *work: str) -> dict[str, WorkingSession]:
        name = SessionId(f"{session}-0000")
        return {session: WorkingSession(session=name, title=session, work=work, since=1)}

    first = working("aaaaaaaa", "a running turn") | working("bbbbbbbb", "a running turn")
    lines = list(changed_lines({}, first))
    assert [line.split(" (")[0] for line in lines] == [
        "  aaaaaaaa  aaaaaaaa: a running turn",
        "  bbbbbbbb  bbbbbbbb: a running turn",
    ]
    assert list(changed_lines(first, first)) == []
    waits = "a request that waits for an answer (Bash)"
    lines = list(changed_lines(first, working("bbbbbbbb", "a running turn", waits)))
    assert lines[0].startswith(f"  bbbbbbbb  bbbbbbbb: a running turn, {waits} (")
    assert lines[1:] == ["  aaaaaaaa  aaaaaaaa: idle"]
