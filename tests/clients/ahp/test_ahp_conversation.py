"""The AHP conversation without a server: handshake, malformed input, and the limits of what a client can make grow."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.ahp.harness import ROOT, VERSIONS, channel_of, chat_of, message
from fairlead.clients.ahp.client_record import ACTIVE_BYTES, ACTIVE_CLIENTS, ClientRecord
from fairlead.clients.ahp.conversation import AhpConversation
from fairlead.clients.ahp.encoder import AhpEncoder
from fairlead.clients.ahp.subscriptions import Subscriptions
from fairlead.model import commands as cmd
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotFound, TooMany
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId
from fairlead.model.queries import ListAgents
from fairlead.model.web.broadcast import JoinChannel
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import (
    Effect,
    EnterChannel,
    Handshake,
    KeepState,
    RecallState,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Write,
)
from fairlead.sessions.api.folders import ReadSessionChoices, SessionChoices
from fairlead_testing.replay import unframed
from flows import drive

SESSION = "11111111-1111-4111-8111-111111111111"
Frame = dict[str, Any]


class OfflineClient:
    """One conversation in front of a core that has no session. `steps` are the steps that it was asked for."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        opening = Handshake(
            head=Head(method="GET", path="/ahp", socket=True),
            who=Identity("c1", "owner", "Ann", frozenset({"admin"})),
            version="1.2.3",
            fresh=lambda: "00000000-0000-4000-8000-000000000001",
            now=lambda: 1_000,
        )
        self.conversation = AhpConversation(opening)
        assert self.conversation.opened() == ()

    def raw(self, data: bytes) -> list[Frame]:
        return self._frames(self.conversation.received(data, True))

    def throttled(self, data: bytes) -> list[Frame]:
        return self._frames(self.conversation.throttled(data, True, TooMany("Too fast.")))

    def _frames(self, effects: Sequence[Effect]) -> list[Frame]:
        found: list[Frame] = []
        for effect in drive(self.conversation, effects, self._answer):
            if isinstance(effect, Write):
                found.extend(json.loads(payload) for payload in unframed(effect.frames))
            else:
                assert isinstance(effect, EnterChannel | KeepState)
        return found

    def _answer(self, step: Any, lane: str) -> Any:
        self.steps.append(step)
        match step:
            case JoinChannel():
                return lambda sink: None
            case RecallState():
                return None
            case ReadSessionChoices():
                return SessionChoices(("/srv",), modes=("default", "plan"))
            case ListAgents():
                return ()
            case cmd.Create():
                return cmd.Reply(session=step.session)
            case _:
                raise NotFound("session", SESSION)

    def request(self, method: str, channel: str = ROOT, **params: Any) -> Frame:
        sent = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"channel": channel, **params}}
        (answer,) = self.raw(json.dumps(sent).encode())
        assert answer["id"] == 7
        return answer

    def initialize(self, **params: Any) -> Frame:
        given = {"protocolVersions": VERSIONS, "clientId": "vs", "initialSubscriptions": [ROOT], **params}
        return self.request("initialize", **given)


def dispatched(channel: Any, action: Any, number: Any = 1) -> bytes:
    params = {"channel": channel, "clientSeq": number, "action": action}
    return json.dumps({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).encode()


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(VERSIONS, "0.9.0"), (["1.1.0", "0.7.0"], "0.7.0"), (["0.5.1"], "0.5.1"), (["0.8.0", "0.6.0", "0.9.0"], "0.6.0")],
)
def test_the_version_is_the_best_that_both_speak(offered: list[str], chosen: str) -> None:
    answer = OfflineClient().initialize(protocolVersions=offered)
    assert answer["result"]["protocolVersion"] == chosen
    assert answer["result"]["serverInfo"] == {"name": "fairlead", "version": "1.2.3"}


@pytest.mark.parametrize("offered", [["1.1.0", "1.0.0"], ["0.4.0"], [], ["nonsense"]])
def test_other_versions_are_refused_with_ours(offered: list[str]) -> None:
    client = OfflineClient()
    error = client.initialize(protocolVersions=offered)["error"]
    assert error["code"] == -32005 and error["data"]["supportedVersions"][0] == "0.9.0"
    assert client.request("listSessions")["error"]["code"] == -32600
    assert "result" in client.initialize()


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersions": "0.9.0"},
        {"protocolVersions": [1]},
        {"clientId": 5},
        {"clientId": ""},
        {"clientId": "x" * 201},
        {"initialSubscriptions": {}},
        {"initialSubscriptions": ["x"] * 201},
    ],
)
def test_a_wrong_handshake_is_answered_with_an_error(params: dict[str, Any]) -> None:
    client = OfflineClient()
    assert client.initialize(**params)["error"]["code"] == -32602
    assert "result" in client.initialize()


def test_channels_that_do_not_exist_are_missing_in_the_answer() -> None:
    channels = [ROOT, channel_of(SESSION), chat_of(SESSION), "ahp-terminal:/x", "nonsense"]
    answer = OfflineClient().initialize(initialSubscriptions=channels)
    assert [one["resource"] for one in answer["result"]["snapshots"]] == [ROOT]


@pytest.mark.parametrize(
    ("data", "code", "name"),
    [
        (b"nonsense", -32700, None),
        (b"\xff", -32700, None),
        (b"[" * 5000, -32700, None),
        (b"[]", -32600, None),
        (b"5", -32600, None),
        (b'{"id":1}', -32600, 1),
        (b'{"id":1,"method":5}', -32600, 1),
        (b'{"id":"a","method":"ping","params":[]}', -32600, "a"),
        (b'{"id":1,"method":"unheardOf","params":{}}', -32601, 1),
        (b'{"id":1,"method":"createTerminal","params":{"channel":"ahp-terminal:/1"}}', -32601, 1),
        (b'{"id":1,"method":"authenticate","params":{}}', -32601, 1),
    ],
)
def test_malformed_messages_get_an_error_and_the_socket_stays(data: bytes, code: int, name: Any) -> None:
    client = OfflineClient()
    (answer,) = client.raw(data)
    assert answer["error"]["code"] == code and answer["id"] == name
    assert client.request("ping")["result"] == {}


@pytest.mark.parametrize(
    "data",
    [
        b'{"id":1,"result":{}}',
        b'{"id":1,"error":{}}',
        b'{"method":"ping","params":{}}',
        b'{"method":"unsubscribe","params":{"channel":5}}',
        b'{"method":"unsubscribe","params":{"channel":"ahp-root://"}}',
        b'{"method":"dispatchAction","params":{}}',
        b'{"method":"dispatchAction","params":{"action":[]}}',
        dispatched(ROOT, {"type": "root/configChanged", "config": {"a": 1}}),
        dispatched(5, {"type": "chat/turnStarted"}),
        dispatched(chat_of(SESSION), {"type": "chat/turnStarted"}, "one"),
        dispatched(chat_of(SESSION), {"type": "chat/turnStarted"}, -1),
        dispatched(chat_of(SESSION), {"type": "chat/turnStarted"}, 2**70),
    ],
)
def test_messages_without_an_answer(data: bytes) -> None:
    client = OfflineClient()
    client.initialize()
    steps = len(client.steps)
    assert client.raw(data) == [] and len(client.steps) == steps


@pytest.mark.parametrize(
    "action",
    [
        {"type": "chat/truncated"},
        {"type": "chat/toolCallComplete", "turnId": "t", "toolCallId": "c", "result": {}},
        {"type": "chat/turnComplete", "turnId": "t"},
        {"type": "session/workingDirectorySet", "directory": "file:///"},
        {"type": "unheardOf"},
        {"type": 5},
        {},
        {"type": "chat/turnStarted"},
        {"type": "chat/turnStarted", "turnId": "", "message": message("hi")},
        {"type": "chat/turnStarted", "turnId": "x" * 201, "message": message("hi")},
        {"type": "chat/turnStarted", "turnId": "t", "message": "hi"},
        {"type": "chat/turnStarted", "turnId": "t", "message": message("")},
        {"type": "chat/turnStarted", "turnId": "t", "message": message("hi", attachments=5)},
        {"type": "chat/turnStarted", "turnId": "t", "message": message("hi", attachments=[{}] * 51)},
        {"type": "chat/queuedMessagesReordered", "order": "a"},
        {"type": "chat/toolCallConfirmed"},
        {"type": "session/titleChanged", "title": 5},
        {"type": "session/configChanged", "config": {"permissionMode": 5}},
        {"type": "session/activeClientSet", "activeClient": 5},
    ],
)
def test_actions_that_are_not_accepted_come_back_with_the_reason(action: Frame) -> None:
    client = OfflineClient()
    client.initialize()
    (answer,) = client.raw(dispatched(chat_of(SESSION), action, 9))
    params = answer["params"]
    assert answer["method"] == "action" and params["rejectionReason"]
    assert params["origin"] == {"clientId": "vs", "clientSeq": 9} and params["action"] == action


def test_actions_before_the_handshake_and_on_other_channels_are_rejected() -> None:
    client = OfflineClient()
    (answer,) = client.raw(dispatched(chat_of(SESSION), {"type": "chat/turnStarted"}))
    assert answer["params"]["rejectionReason"] and client.steps == []
    client.initialize()
    (answer,) = client.raw(dispatched("ahp-chat:/no-uuid", {"type": "chat/turnStarted"}))
    assert answer["params"]["rejectionReason"]


def test_a_client_that_sends_too_much_is_answered_and_nothing_is_done() -> None:
    client = OfflineClient()
    client.initialize()
    steps = len(client.steps)
    (answer,) = client.throttled(b'{"id":3,"method":"listSessions","params":{}}')
    assert answer["id"] == 3 and answer["error"]["message"] == "Too fast."
    (rejected,) = client.throttled(dispatched(chat_of(SESSION), {"type": "chat/turnStarted"}))
    assert rejected["params"]["rejectionReason"] == "Too fast."
    assert client.throttled(b'{"method":"unsubscribe","params":{}}') == []
    assert client.throttled(b'{"id":1,"result":{}}') == []
    assert "error" in client.throttled(b"nonsense")[0]
    assert len(client.steps) == steps


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"provider": "claude"}, -32002),
        ({"channel": "fairlead:/no-uuid"}, -32602),
        ({"channel": "ahp-session:/" + SESSION}, -32602),
        ({"workingDirectories": ["http://example.org"]}, -32602),
        ({"workingDirectories": [5]}, -32602),
        ({"config": {"permissionMode": 5}}, -32602),
        ({"config": []}, -32602),
    ],
)
def test_a_session_that_cannot_be_created(params: dict[str, Any], code: int) -> None:
    client = OfflineClient()
    client.initialize()
    given = {"channel": channel_of(SESSION), "provider": "fairlead", **params}
    assert client.request("createSession", **given)["error"]["code"] == code
    assert not [step for step in client.steps if isinstance(step, cmd.Create)]


def test_other_requests_about_a_session() -> None:
    client = OfflineClient()
    client.initialize()
    for method, params in (("subscribe", {}), ("disposeSession", {}), ("createChat", {"chat": chat_of(SESSION)})):
        assert client.request(method, channel_of(SESSION), **params)["error"]["code"] == -32001
    assert client.request("fetchTurns", "ahp-chat:/none", cursor="1")["error"]["code"] == -32008
    assert client.request("completions", chat_of(SESSION))["result"] == {"items": []}
    assert client.request("resourceWrite", uri="file:///srv/a")["error"]["code"] == -32009


def test_the_own_entry_as_an_active_client_is_bounded() -> None:
    kept = ClientRecord()
    for number in range(ACTIVE_CLIENTS + 5):
        kept.set_active(SessionId(str(number)), {"tools": []})
    assert len(kept.active) == ACTIVE_CLIENTS and "4" not in kept.active
    for number in range(5):
        kept.set_active(SessionId(str(number)), {"tools": ["x" * (300 << 10)]})
    assert list(kept.active) == ["2", "3", "4"]
    kept.set_active(SessionId("large"), {"tools": ["x" * ACTIVE_BYTES]})
    assert kept.active == {}


def test_a_session_that_cannot_be_subscribed_again_is_lost() -> None:
    record = ClientRecord(5)
    for name in "abc":
        record.encoders[SessionId(name)] = AhpEncoder(chat=0)
        record.cursors[SessionId(name)] = Cursor(3, "log")
    steps = Subscriptions(record).start()
    first = next(steps)
    assert isinstance(first, Subscribe) and (first.session, first.cursor) == ("a", Cursor(3, "log"))
    second = steps.send(Subscribed(SessionId("a"), "ok", "log", 3))
    # Its log is another one now: nothing of it is sent.
    assert steps.send(Subscribed(second.session, "gap", "new", 3)) == Unsubscribe(SessionId("b"))
    third = steps.send(None)
    assert third.session == "c"
    with pytest.raises(StopIteration) as end:
        steps.throw(NotFound("session", "c"))
    assert end.value.value == {"b", "c"} and list(record.encoders) == list(record.cursors) == ["a"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
METHODS = (
    *("initialize", "subscribe", "unsubscribe", "dispatchAction", "listSessions", "resolveSessionConfig"),
    *("createSession", "disposeSession", "createChat", "fetchTurns", "completions", "resourceRead", "resourceList"),
    "reconnect",
)
ACTIONS = (
    *("turnStarted", "turnCancelled", "pendingMessageSet", "pendingMessageRemoved", "queuedMessagesReordered"),
    *("toolCallConfirmed", "inputCompleted", "draftChanged"),
)
fields = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("clientSeq", "protocolVersions", "config", "uri", "cursor", "limit", "chat"), anything),
        "channel": st.sampled_from([ROOT, channel_of(SESSION), chat_of(SESSION)]) | anything,
        "provider": st.just("fairlead") | anything,
        "action": anything
        | st.fixed_dictionaries(
            {"type": st.sampled_from([f"chat/{name}" for name in ACTIONS])},
            optional=dict.fromkeys(("turnId", "id", "kind", "message", "order", "toolCallId", "requestId"), anything),
        ),
    },
)


@given(st.lists(st.tuples(st.sampled_from(METHODS), fields), max_size=6))
def test_no_message_raises_an_unexpected_error(messages: list[tuple[str, Frame]]) -> None:
    client = OfflineClient()
    client.initialize()
    for number, (method, params) in enumerate(messages):
        answers = client.raw(json.dumps({"id": number, "method": method, "params": params}).encode())
        for answer in answers:
            assert "method" in answer or "result" in answer or answer["error"]["code"] != -32603
    assert client.request("ping")["result"] == {}


def test_an_error_that_no_flow_handles_is_reported() -> None:
    client = OfflineClient()
    (frame,) = client._frames(client.conversation.failed(FairleadError("Broken.")))
    assert frame["error"] == {"code": -32603, "message": "Broken.", "data": {"code": "internal"}}
