"""The chat without a gateway: the test performs and answers its steps. Also the imports that are allowed."""

import ast
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fairlead
from clients.cognova.chat_offline import frames_of
from fairlead.clients.claudecodeui import PROTOCOL
from fairlead.clients.claudecodeui.chat.conversation import ChatConversation
from fairlead.clients.claudecodeui.chat.history import NAME, HistoryMemory
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.errors import AgentNotRunning, Busy, FairleadError, NotFound, Unavailable
from fairlead.model.formats.frames import json_frame
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.web.broadcast import JoinChannel
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import Effect, Handshake, RunFlow, Subscribe, Write
from flows import drive

S = SessionId("5e551011-0000-4000-8000-000000000001")
WHO = Identity("c", "ann", "ann", frozenset({"admin"}))
SOURCE = Path(fairlead.__file__).parent


def opening(**params: str) -> Handshake:
    return Handshake(head=Head(method="GET", path="/ws"), who=WHO, version="1", fresh=lambda: "f", params=params)


class ChatDriver:
    """A conversation and the steps that it requests; the test plays the gateway."""

    def __init__(self, **memory: Any) -> None:
        self.chat = ChatConversation(opening())
        self.memory = HistoryMemory(session=S, seq=7, **memory)
        self.frames: list[dict[str, Any]] = []
        self.commands: list[Any] = []
        self.steps: list[str] = []
        """The names of all requested steps, in order."""
        self.fails: dict[type, FairleadError] = {}

    def say(self, **message: Any) -> "ChatDriver":
        for effect in drive(self.chat, self.chat.received(json.dumps(message).encode(), True), self.answer):
            assert isinstance(effect, Write)
            self.frames.extend(frames_of(effect.frames))
        return self

    def answer(self, step: Any, lane: str) -> Any:
        self.steps.append(type(step).__name__)
        if isinstance(step, cmd.CommandBase):
            self.commands.append(step)
        if type(step) in self.fails:
            raise self.fails[type(step)]
        match step:
            case Subscribe():
                return None
            case q.ReadProjection(view=view):
                assert view == NAME
                return msgspec.msgpack.encode(self.memory)
            case q.GetSession():
                return type("View", (), {"settings": {}})()
            case _:
                return cmd.Reply(session=S)


@pytest.mark.rules("S003-008", "S003-040")
def test_a_prompt_becomes_a_send_command() -> None:
    driver = ChatDriver().say(type="chat.send", sessionId=S, content="hi")
    (sent,) = driver.commands
    assert isinstance(sent, cmd.Send) and (sent.session, sent.wait) == (S, False)
    assert driver.frames == []
    assert driver.steps == ["WaitLoaded", "ReadProjection", "Subscribe", "GetSession", "Send"], (
        "looked up, attached, then started"
    )


@pytest.mark.rules("S003-040")
@pytest.mark.parametrize("step", [q.WaitLoaded, q.ReadProjection])
def test_nothing_is_started_for_a_session_that_is_not_found(step: type) -> None:
    driver = ChatDriver()
    driver.fails[step] = NotFound("session", S)
    driver.say(type="chat.send", sessionId=S, content="hi")
    assert [error["code"] for error in driver.frames] == ["SESSION_NOT_FOUND"]
    assert driver.commands == []


@pytest.mark.rules("S003-008", "S003-049")
def test_an_approval_becomes_an_answer_command() -> None:
    driver = ChatDriver()
    driver.say(type="chat.permission-response", requestId="r1", allow=True, updatedInput={"command": "ls"})
    (given,) = driver.commands
    assert isinstance(given, cmd.AnswerPermission)
    assert (given.session, given.request, given.behavior) == (None, "r1", "allow"), "the request names the session"
    assert given.updated_input == {"command": "ls"}
    assert (driver.steps, driver.frames) == (["AnswerPermission"], [])


@pytest.mark.rules("S003-008", "S003-136", "S003-137")
@pytest.mark.parametrize(
    ("error", "code"),
    [(Busy("no"), "RUN_IN_PROGRESS"), (Unavailable("the store is away"), "INTERNAL_ERROR")],
)
def test_a_failed_command_is_reported_and_the_next_message_is_handled(error: FairleadError, code: str) -> None:
    driver = ChatDriver()
    driver.fails[cmd.Send] = error
    driver.say(type="chat.send", sessionId=S, content="hi")
    driver.fails.clear()
    driver.say(type="chat.send", sessionId=S, content="again")
    (reply,) = driver.frames
    assert (reply["kind"], reply["code"]) == ("protocol_error", code)
    assert len(driver.commands) == 2


@pytest.mark.rules("S003-008", "S003-043")
def test_an_abort_depends_on_the_state_of_the_session() -> None:
    assert isinstance(ChatDriver(running=True).say(type="chat.abort", sessionId=S).commands[0], cmd.Interrupt)
    queued = ChatDriver(queued={"m1": None}).say(type="chat.abort", sessionId=S)
    assert queued.commands == [cmd.CancelMessage(session=S, message=MessageId("m1"))]
    assert ChatDriver().say(type="chat.abort", sessionId=S).frames[0]["code"] == "NO_ACTIVE_RUN"
    gone = ChatDriver(running=True)
    gone.fails[cmd.Interrupt] = AgentNotRunning("The agent is not running.")
    assert gone.say(type="chat.abort", sessionId=S).frames[0]["code"] == "INTERNAL_ERROR"


def test_an_abort_gives_up_when_the_queued_message_is_never_found() -> None:
    driver = ChatDriver(queued={"m1": None})
    driver.fails[cmd.CancelMessage] = NotFound("queued message", "m1")
    driver.say(type="chat.abort", sessionId=S)
    assert [error["code"] for error in driver.frames] == ["NO_ACTIVE_RUN"]
    assert len(driver.commands) == 5


def test_pending_requests_per_session_and_socket_are_bounded() -> None:
    chat = ChatConversation(opening())
    effects: list[Effect] = []
    for _ in range(102):
        effects.extend(chat.received(json.dumps({"type": "chat.abort", "sessionId": S}).encode(), True))
    assert [type(effect) for effect in effects] == [*[RunFlow] * 100, Write, Write]


@pytest.mark.rules("S003-132")
def test_frames_are_json_text() -> None:
    assert json_frame({"kind": "status"})[0] == 0x81
    assert frames_of(json_frame({"kind": "status", "text": "ä"})) == [{"kind": "status", "text": "ä"}]


@pytest.mark.rules("S003-124", "S003-125")
def test_only_the_chat_joins_the_broadcast_channel() -> None:
    """A socket that has not joined the channel receives no broadcast."""
    asking = {}
    for route in (*PROTOCOL.sockets, *PROTOCOL.door_sockets):
        effects = route.open(opening(plugin="x", name="x")).opened()
        flows = [effect.flow for effect in effects if isinstance(effect, RunFlow)]
        asking[route.name] = any(isinstance(next(flow), JoinChannel) for flow in flows)
    assert {name for name, asks in asking.items() if asks} == {"claudecodeui.chat"}
    assert len(asking) >= 4


# --- imports


@functools.cache
def imported(path: Path) -> list[str]:
    """The full name of everything that a file imports."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            names += (name.name for name in node.names)
    return names


def imports(folder: Path) -> Iterator[tuple[Path, str]]:
    return ((path, name) for path in sorted(folder.rglob("*.py")) for name in imported(path))


@pytest.mark.rules("S003-009")
def test_sockets_and_agents_do_not_import_each_other() -> None:
    for package, other in (("server", "agents"), ("clients", "agents"), ("agents", "clients"), ("agents", "server")):
        for path, module in imports(SOURCE / package):
            assert not module.startswith(f"fairlead.{other}"), f"{path} imports {module}"


@pytest.mark.rules("S003-141")
def test_the_protocol_has_one_entry_point() -> None:
    inner, folder = "fairlead.clients.claudecodeui.", SOURCE / "clients" / "claudecodeui"
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    for path, module in imports(SOURCE):
        is_inner = module.startswith(inner) and module.removeprefix(inner).partition(".")[0] in modules
        assert not is_inner or folder in path.parents, f"{path} imports {module}"
    entry = ast.parse((folder / "__init__.py").read_text())
    made = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
    assert not any(isinstance(node, made) for node in ast.walk(entry))
