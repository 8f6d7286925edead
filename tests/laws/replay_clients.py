"""The clients of our own protocols for the replay law (`fairlead_testing.replay`), each with its reference client."""

from typing import Any

import msgspec

from fairlead.auth.api.session_keys import SessionKey
from fairlead.clients.acp.encoder import AcpEncoder
from fairlead.clients.acp.options import OfferedOptions
from fairlead.clients.acp.updates import EditorFeatures
from fairlead.clients.agui.encoder import RunEncoder
from fairlead.clients.agui.history import HistoryReducer as AgUiReducer
from fairlead.clients.agui.history import message_of_row
from fairlead.clients.agui.wire import encode_events, event
from fairlead.clients.ahp.channels import chat_uri, session_uri
from fairlead.clients.ahp.encoder import AhpEncoder
from fairlead.clients.ahp.snapshots import AhpReducer, chat_snapshot, session_snapshot, snapshot
from fairlead.clients.ahp.snapshots import read_memory as read_ahp_memory
from fairlead.clients.claudecodeui.chat.frames import ChatEncoder
from fairlead.clients.claudecodeui.chat.history import HistoryMemory, HistoryReducer, read_memory
from fairlead.clients.cognova.chat_frames import ENCODER as COGNOVA
from fairlead.clients.direct.event_stream import EventStreamEncoder
from fairlead.clients.direct.view import DirectEncoder, DirectReducer, decode_catch_up
from fairlead.clients.happy.encryption import unseal
from fairlead.clients.happy.mapper import HappyReducer
from fairlead.clients.happy.messages import HappyEncoder
from fairlead.clients.mylifedb.fold import MyLifeDbReducer
from fairlead.clients.mylifedb.variants import MyLifeDbEncoder
from fairlead.clients.native.codec import CODECS
from fairlead.model.formats.numbered_frames import FRAMES
from fairlead.model.gateway import Cursor, EncoderWithoutSignals, FrameEncoder
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, ReplaceRow
from fairlead.model.views import Made, NewRow
from fairlead_testing.acp_client import AcpEditor
from fairlead_testing.agui_client import AgUiClient, payloads_of
from fairlead_testing.ahp_client import AhpClient
from fairlead_testing.claudecodeui_client import ClaudeCodeUiClient
from fairlead_testing.claudecodeui_client import Shown as CcuiShown
from fairlead_testing.cognova_client import CognovaClient
from fairlead_testing.direct_client import DirectClient
from fairlead_testing.happy_client import HappyClient
from fairlead_testing.mylifedb_client import MyLifeDbClient
from fairlead_testing.native_client import Fold
from fairlead_testing.replay import SESSION, LogScene, RecordedLog, ReplayClient, Scene, ViewScene
from laws.test_cognova_law import seen as cognova_seen
from laws.test_mylifedb_law import seen as mylifedb_seen

KEY = SessionKey("dataKey", bytes(range(32)))


class NativeReplay(ReplayClient):
    codec = "fairlead.v1.json"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.fold = Fold()

    def encoder(self) -> FrameEncoder:
        return CODECS[self.codec]

    def take(self, payload: bytes) -> None:
        message = (msgspec.msgpack if "msgpack" in self.codec else msgspec.json).decode(payload)
        if message["type"] != "presence":
            self.fold.apply(message)

    def state(self) -> Any:
        return self.fold.state


class PackedNativeReplay(NativeReplay):
    codec = "fairlead.v1.msgpack"


class DirectReplay(ReplayClient):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = DirectClient()

    def encoder(self) -> FrameEncoder:
        assert isinstance(self.scene, LogScene)
        return DirectEncoder(self.scene.foreign)

    def take(self, payload: bytes) -> None:
        self.client.feed(payload)

    def state(self) -> Any:
        """All but the pieces of complete blocks: they leave the log."""
        whole = [message for message in self.client.messages if message.get("type") != "stream_event"]
        return whole, self.client.init, self.client.pending


class DirectStreamReplay(ReplayClient):
    """It comes back with the number of its last durable event, whatever else it received."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.records: dict[int, Any] = {}
        self.pending: dict[str, Any] = {}

    def encoder(self) -> FrameEncoder:
        assert isinstance(self.scene, LogScene)
        fold = DirectReducer(SESSION)
        for entry in self.scene.log():
            fold.step(entry)
        joined = decode_catch_up(fold.snapshot())
        start = max(self.records, default=0)
        return EventStreamEncoder(self.scene.foreign, start, joined.seq, frozenset(joined.pending))

    def split(self, data: bytes) -> list[bytes]:
        return payloads_of(data)

    def cursor(self, position: int) -> Cursor:
        return Cursor(max(self.records, default=0))

    def take(self, payload: bytes) -> None:
        event = msgspec.json.decode(payload)
        if "sequence_num" not in event:
            return  # a piece of a text, or a delivery
        number, record = event["sequence_num"], event["payload"]
        assert number > max(self.records, default=0), "sent twice, or in another order"
        match record["type"]:
            case "control_request":
                self.pending[record["request_id"]] = record
            case "control_cancel_request":
                self.pending.pop(record["request_id"], None)
        self.records[number] = event

    def state(self) -> Any:
        """All but requests that were settled before the client was there to receive them."""
        control = "control_request", "control_cancel_request"
        return [event for event in self.records.values() if event["payload"]["type"] not in control], self.pending


class CognovaReplay(ReplayClient):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = CognovaClient()
        self.client.apply({"type": "chat:session_created", "conversationId": SESSION})

    def encoder(self) -> FrameEncoder:
        return COGNOVA

    def take(self, payload: bytes) -> None:
        self.client.apply(msgspec.json.decode(payload))

    def state(self) -> Any:
        return cognova_seen(self.client.conversations[SESSION])


class MyLifeDbReplay(ReplayClient):
    packed = False

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = MyLifeDbClient()
        self.client.opened()

    @classmethod
    def scene_of(cls, recorded: RecordedLog) -> Scene:
        return ViewScene(recorded, MyLifeDbReducer(SESSION))

    def encoder(self) -> FrameEncoder:
        return MyLifeDbEncoder(packed=self.packed, state=True)

    def take(self, payload: bytes) -> None:
        self.client.apply((msgspec.msgpack if self.packed else msgspec.json).decode(payload))

    def state(self) -> Any:
        return mylifedb_seen(self.client, passing=False)


class PackedMyLifeDbReplay(MyLifeDbReplay):
    packed = True


class HappyReplay(ReplayClient):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = HappyClient()

    @classmethod
    def scene_of(cls, recorded: RecordedLog) -> Scene:
        return ViewScene(recorded, HappyReducer(SESSION))

    def encoder(self) -> FrameEncoder:
        return HappyEncoder(None)

    def take(self, payload: bytes) -> None:
        message = msgspec.json.decode(payload)
        assert self.client.receive(message["meta"]["seq"], message)

    def state(self) -> Any:
        return self.client.state, self.client.tracer.children


class EncryptedHappyReplay(HappyReplay):
    def encoder(self) -> FrameEncoder:
        # As the conversation creates it, from a key that it has read.
        return HappyEncoder(SessionKey(KEY.scheme, bytes(KEY.key)))

    def take(self, payload: bytes) -> None:
        row = msgspec.json.decode(payload)
        assert self.client.receive(row["seq"], unseal(KEY, row["content"]["c"]))


class ClaudeCodeUiReplay(ReplayClient):
    """Its conversation reads the context that frames need from the past, and looks at a session or away from it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = ClaudeCodeUiClient()
        self.client.sessions[SESSION] = CcuiShown()
        self.whole = self.looked_away = False

    @property
    def shown(self) -> CcuiShown:
        return self.client.sessions[SESSION]

    def memory(self) -> HistoryMemory:
        assert isinstance(self.scene, LogScene)
        fold = HistoryReducer(SESSION)
        for entry in self.scene.log():
            fold.step(entry)
        return read_memory(fold.snapshot())

    def encoder(self) -> FrameEncoder:
        return ChatEncoder(whole=self.whole)

    def cursor(self, position: int) -> Cursor:
        last = self.shown.seq
        return Cursor(max(last // FRAMES - 1, 0), frame=last, context=self.memory().known)

    def take(self, payload: bytes) -> None:
        self.client.apply(msgspec.json.decode(payload))

    def look_away(self) -> None:
        assert self.subscription is not None
        self.whole = self.looked_away = True
        self._go_on()

    def look_back(self) -> None:
        """In the middle of a run the first half of a text would be missing: its conversation waits for the end."""
        if not self.memory().processing:
            self.whole = False
            self._go_on()

    def _go_on(self) -> None:
        assert self.subscription is not None
        self.subscription.close()
        self.open(self.subscription.cursor)

    def state(self) -> Any:
        """All, except partial texts from before it looked away: they have no id, and history has them."""
        rows = [{name: value for name, value in row.items() if name != "seq"} for row in self.shown.rows]
        return [row for row in rows if "id" in row], self.shown.requests, self.shown.completes, self.shown.budget


ACP_FEATURES = EditorFeatures(forms=True, notices=True, compaction=True, approves=True)
ACP_OPTIONS = OfferedOptions(modes=("default", "acceptEdits", "plan"), models=("sonnet",), thinking=True)


class AcpReplay(ReplayClient):
    """It reads the log from its start, and receives the messages of the entries after its position."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.editor = AcpEditor()
        self.after = 0

    def encoder(self) -> FrameEncoder:
        return AcpEncoder(features=ACP_FEATURES, offered=ACP_OPTIONS, shown_after=self.after)

    def cursor(self, position: int) -> Cursor:
        self.after = position
        return Cursor(0)

    def take(self, payload: bytes) -> None:
        self.editor.feed(msgspec.json.decode(payload))

    def state(self) -> Any:
        shown = self.editor
        words = [(message.kind, message.id, message.parts) for message in shown.messages]
        settings = shown.mode, shown.options, shown.commands, shown.usage, shown.info
        calls = shown.calls, shown.order, shown.inside
        return words, calls, shown.plan, settings, shown.compactions, shown.notices, shown.requests


class AhpReplay(ReplayClient):
    """A client comes back with a new snapshot, as its conversation reads it, and gets the actions after it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = AhpClient()

    def encoder(self) -> FrameEncoder:
        return AhpEncoder(chat=0, session=0)

    def cursor(self, position: int) -> Cursor:
        assert isinstance(self.scene, LogScene)
        fold = AhpReducer(SESSION)
        turns = [made.data for entry in self.scene.log() for made in fold.step(entry) if isinstance(made, NewRow)]
        memory = read_ahp_memory(fold.snapshot())
        for channel, state in (
            (chat_uri(SESSION), chat_snapshot(memory, turns, "")),
            (session_uri(SESSION), {**session_snapshot(memory, {}), "activeClients": []}),
        ):
            self.client.take_snapshot(msgspec.json.decode(msgspec.json.encode(snapshot(channel, state, memory.at))))
        return Cursor(memory.seq, context=memory.context)

    def take(self, payload: bytes) -> None:
        self.client.take(msgspec.json.decode(payload))

    def state(self) -> Any:
        """All but two fields for which the protocol has no action: a session's status, and the title in a chat."""
        session = self.client.sessions[session_uri(SESSION)]
        chat = self.client.chats[chat_uri(SESSION)]
        return {**session, "status": None}, {**chat, "title": None}


START = {"fairlead": {"mode": "default", "model": "", "title": "", "queue": []}}


class AgUiRuns(EncoderWithoutSignals, frozen=True):
    """A page that attaches again after each run: it begins with our history, and a RUN_STARTED with its position."""

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: Any, session: SessionId, entry: Entry) -> tuple[Any, bytes]:
        state, rows, run, name = context or (None, (), None, "")
        first = b""
        if run is None or run.finished:
            run, name = None, str(entry.seq)
            messages = [message_of_row(data, entry.seq) for data in rows]
            begin = event("RUN_STARTED", threadId="thread", runId=name)
            known = event("MESSAGES_SNAPSHOT", messages=[message for message in messages if message is not None])
            first = encode_events([begin, known, event("STATE_SNAPSHOT", snapshot=START)])
        run, frames = RunEncoder(thread="thread", run=name).step(run, session, entry)
        reducer = AgUiReducer(session)
        if state is not None:
            reducer.restore(state)
        for made in reducer.step(entry):
            rows = with_row(rows, made)
        return (reducer.snapshot(), rows, run, name), first + frames


def with_row(rows: tuple[bytes, ...], made: Made) -> tuple[bytes, ...]:
    match made:
        case NewRow():
            return (*rows, made.data)
        case ReplaceRow():
            return tuple(made.data if msgspec.json.decode(row)["id"] == made.key else row for row in rows)
        case _:
            raise AssertionError("AG-UI has no transient rows")


class AgUiReplay(ReplayClient):
    """A run that is requested again is sent again from its start."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = AgUiClient()

    def encoder(self) -> FrameEncoder:
        return AgUiRuns()

    def split(self, data: bytes) -> list[bytes]:
        return payloads_of(data)

    def take(self, payload: bytes) -> None:
        one = msgspec.json.decode(payload)
        if one["type"] == "RUN_STARTED":
            self.client.messages, self.client.running = [], False
        self.client.apply(one)

    def cursor(self, position: int) -> Cursor:
        assert isinstance(self.scene, LogScene)
        start, context = Cursor(0), None
        for entry in self.scene.log():
            if entry.seq > position:
                break
            if context is None or context[2].finished:
                start = Cursor(entry.seq - 1, context=context)
            context, _ = AgUiRuns().step(context, SESSION, entry)
        return start

    def state(self) -> Any:
        """The messages; a result stands behind its call, whenever it came."""
        return sorted(self.client.messages, key=lambda message: str(message["id"]))


CLIENTS: dict[str, type[ReplayClient]] = {
    "native json": NativeReplay,
    "native msgpack": PackedNativeReplay,
    "mylifedb": MyLifeDbReplay,
    "mylifedb msgpack": PackedMyLifeDbReplay,
    "happy": HappyReplay,
    "happy sealed": EncryptedHappyReplay,
    "direct": DirectReplay,
    "direct stream": DirectStreamReplay,
    "cognova": CognovaReplay,
    "claudecodeui": ClaudeCodeUiReplay,
    "acp": AcpReplay,
    "ahp": AhpReplay,
    "agui": AgUiReplay,
}
