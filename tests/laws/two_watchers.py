"""Two clients of one encoder on one hub, in every protocol: one is always connected, the other lags, reconnects or
looks away. The hub and the subscriptions are the core's own; the log loses its deltas when the core drops them.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from clients.mylifedb.view_offline import ViewRecorder, unframed
from fairlead.auth.api.session_keys import SessionKey
from fairlead.clients.claudecodeui.chat.frames import ChatEncoder
from fairlead.clients.claudecodeui.chat.history import HistoryMemory, HistoryReducer, read_memory
from fairlead.clients.cognova.chat_frames import ENCODER as COGNOVA
from fairlead.clients.direct.view import DirectEncoder
from fairlead.clients.happy.encryption import unseal
from fairlead.clients.happy.mapper import HappyReducer
from fairlead.clients.happy.messages import HappyEncoder
from fairlead.clients.mylifedb.fold import MyLifeDbReducer
from fairlead.clients.mylifedb.variants import MyLifeDbEncoder as MyLifeDbVariant
from fairlead.clients.native.codec import CODECS
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.formats.numbered_frames import FRAMES
from fairlead.model.gateway import Cursor, FrameEncoder
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Page, ProjectionRow
from fairlead.model.views import NewRow, ReplaceRow, Resumable, Transient, row_entry, transient_entry
from fairlead.sessions.fanout.hub import Hub, Subscription
from fairlead.testing.claudecodeui_client import ClaudeCodeUiClient
from fairlead.testing.claudecodeui_client import Shown as CcuiShown
from fairlead.testing.cognova_client import CognovaClient
from fairlead.testing.direct_client import DirectClient
from fairlead.testing.happy_client import HappyClient
from fairlead.testing.mylifedb_client import MyLifeDbClient
from fairlead.testing.native_client import Fold
from laws.test_cognova_law import seen as cognova_seen
from laws.test_mylifedb_law import seen as mylifedb_seen
from patience import settled

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
ANN = Identity("c1", "ann", "ann", frozenset({"view"}))
BOB = Identity("c2", "bob", "bob", frozenset({"view"}))
KEY = SessionKey("dataKey", bytes(range(32)))
FULL = 1 << 30


class Socket:
    """A sink whose client reads everything at once, or nothing for a while."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self.slow = False

    def send(self, data: bytes) -> None:
        for payload in unframed(data):
            self._take(payload)

    def backlog(self) -> int:
        return FULL if self.slow else 0

    def fail(self, error: FairleadError) -> None:
        raise error


class LogScene:
    """A session's log, published one entry at a time. Entries that the core drops are gone from then on."""

    def __init__(self, recorder: ViewRecorder) -> None:
        self._recorder = recorder
        self.end = len(self._recorder.entries)
        self.moment = 0
        self.feed = Hub(SESSION, self)

    def log(self) -> list[Entry]:
        gone = self._recorder.gone
        return [entry for entry in self._recorder.entries[: self.moment] if gone.get(entry.seq, FULL) > self.moment]

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 0) -> Page:
        head = self._recorder.entries[self.moment - 1].seq if self.moment else 0
        return Page("log", tuple(entry for entry in self.log() if entry.seq > after)[:limit], head)

    def publish(self) -> None:
        self.moment += 1
        self.feed.publish(self._recorder.entries[self.moment - 1 : self.moment])


class ViewScene:
    """The rows of a view, published as a projector publishes them."""

    def __init__(self, recorder: ViewRecorder, fold: MyLifeDbReducer | HappyReducer) -> None:
        self._recorder = recorder
        self.end = len(self._recorder.entries)
        self.moment = 0
        self.feed = Hub(SESSION, self)
        self.rows: list[ProjectionRow] = []
        self._fold = fold
        self.feed.on_live = self._running

    def _running(self, fresh: bool) -> list[Entry]:
        if not isinstance(self._fold, Resumable):
            return []
        return [transient_entry(len(self.rows), 0, item.data) for item in self._fold.running(fresh=fresh)]

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 0) -> Page:
        return Page("log", tuple(map(row_entry, self.rows[after:]))[:limit], len(self.rows))

    def publish(self) -> None:
        entry = self._recorder.entries[self.moment]
        self.moment += 1
        for made in self._fold.step(entry):
            match made:
                case NewRow():
                    self.rows.append(ProjectionRow(len(self.rows) + 1, entry.seq, entry.at, made.data, made.key))
                    self.feed.publish([row_entry(self.rows[-1])])
                case ReplaceRow():
                    place = next(n for n, row in enumerate(self.rows) if row.key == made.key)
                    self.rows[place] = msgspec.structs.replace(self.rows[place], data=made.data)
                case Transient():
                    self.feed.publish_transient(transient_entry(len(self.rows), entry.at, made.data))


Scene = LogScene | ViewScene


class Watcher:
    """One client: its subscription and its state. Each protocol defines how frames are read and what is compared."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.socket = Socket(self.take)
        self.watcher: Subscription | None = None

    @classmethod
    def scene_of(cls, recorder: ViewRecorder) -> Scene:
        return LogScene(recorder)

    def variant(self) -> FrameEncoder:
        raise AssertionError("each protocol has its own")

    def take(self, payload: bytes) -> None:
        raise AssertionError("each protocol has its own")

    def seen(self) -> Any:
        raise AssertionError("each protocol has its own")

    def cursor(self, position: int) -> Cursor:
        return Cursor(position)

    def open(self, cursor: Cursor, who: Identity = BOB) -> None:
        head = self.scene.feed.head
        self.watcher = Subscription(
            self.scene.feed, who, self.variant(), self.socket, cursor=cursor, head=head, log_id="log", verdict="ok"
        )
        self.watcher.start()

    # --- events in the life of a client

    def lag(self) -> None:
        self.socket.slow = True

    def hurry(self) -> None:
        self.socket.slow = False
        if self.watcher is not None:
            self.watcher.drained()

    def cut(self) -> None:
        assert self.watcher is not None
        self.watcher.close()

    def come_back(self) -> None:
        assert self.watcher is not None
        self.open(self.cursor(self.watcher.position))

    def look_away(self) -> None:
        """Does nothing in a protocol without this feature."""

    def look_back(self) -> None:
        pass


class NativeWatcher(Watcher):
    codec = "fairlead.v1.json"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.fold = Fold()

    def variant(self) -> FrameEncoder:
        return CODECS[self.codec]

    def take(self, payload: bytes) -> None:
        message = (msgspec.msgpack if "msgpack" in self.codec else msgspec.json).decode(payload)
        if message["type"] != "presence":
            self.fold.apply(message)

    def seen(self) -> Any:
        return self.fold.state


class PackedNativeWatcher(NativeWatcher):
    codec = "fairlead.v1.msgpack"


class DirectWatcher(Watcher):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = DirectClient()

    def variant(self) -> FrameEncoder:
        return DirectEncoder()

    def take(self, payload: bytes) -> None:
        self.client.feed(payload)

    def seen(self) -> Any:
        """All but the pieces of complete blocks: they leave the log."""
        whole = [message for message in self.client.messages if message.get("type") != "stream_event"]
        return whole, self.client.init, self.client.pending


class CognovaWatcher(Watcher):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = CognovaClient()
        self.client.apply({"type": "chat:session_created", "conversationId": SESSION})

    def variant(self) -> FrameEncoder:
        return COGNOVA

    def take(self, payload: bytes) -> None:
        self.client.apply(msgspec.json.decode(payload))

    def seen(self) -> Any:
        return cognova_seen(self.client.conversations[SESSION])


class MyLifeDbWatcher(Watcher):
    packed = False

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = MyLifeDbClient()
        self.client.opened()

    @classmethod
    def scene_of(cls, recorder: ViewRecorder) -> Scene:
        return ViewScene(recorder, MyLifeDbReducer(SESSION))

    def variant(self) -> FrameEncoder:
        return MyLifeDbVariant(packed=self.packed, state=True)

    def take(self, payload: bytes) -> None:
        self.client.apply((msgspec.msgpack if self.packed else msgspec.json).decode(payload))

    def seen(self) -> Any:
        return mylifedb_seen(self.client, passing=False)


class PackedMyLifeDbWatcher(MyLifeDbWatcher):
    packed = True


class HappyWatcher(Watcher):
    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.client = HappyClient()

    @classmethod
    def scene_of(cls, recorder: ViewRecorder) -> Scene:
        return ViewScene(recorder, HappyReducer(SESSION))

    def variant(self) -> FrameEncoder:
        return HappyEncoder(None)

    def take(self, payload: bytes) -> None:
        message = msgspec.json.decode(payload)
        assert self.client.receive(message["meta"]["seq"], message)

    def seen(self) -> Any:
        return self.client.state, self.client.tracer.children


class EncryptedHappyWatcher(HappyWatcher):
    def variant(self) -> FrameEncoder:
        # As the conversation creates it, from a key that it has read.
        return HappyEncoder(SessionKey(KEY.scheme, bytes(KEY.key)))

    def take(self, payload: bytes) -> None:
        row = msgspec.json.decode(payload)
        assert self.client.receive(row["seq"], unseal(KEY, row["content"]["c"]))


class ClaudeCodeUiWatcher(Watcher):
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

    def variant(self) -> FrameEncoder:
        return ChatEncoder(whole=self.whole)

    def cursor(self, position: int) -> Cursor:
        last = self.shown.seq
        return Cursor(max(last // FRAMES - 1, 0), frame=last, context=self.memory().known)

    def take(self, payload: bytes) -> None:
        self.client.apply(msgspec.json.decode(payload))

    def look_away(self) -> None:
        assert self.watcher is not None
        self.whole = self.looked_away = True
        self._go_on()

    def look_back(self) -> None:
        """In the middle of a run the first half of a text would be missing: its conversation waits for the end."""
        if not self.memory().processing:
            self.whole = False
            self._go_on()

    def _go_on(self) -> None:
        assert self.watcher is not None
        self.watcher.close()
        self.open(self.watcher.cursor)

    def seen(self) -> Any:
        """All, except partial texts from before it looked away: they have no id, and history has them."""
        rows = [{name: value for name, value in row.items() if name != "seq"} for row in self.shown.rows]
        return [row for row in rows if "id" in row], self.shown.requests, self.shown.completes, self.shown.budget


SEATS: dict[str, type[Watcher]] = {
    "native json": NativeWatcher,
    "native msgpack": PackedNativeWatcher,
    "mylifedb": MyLifeDbWatcher,
    "mylifedb msgpack": PackedMyLifeDbWatcher,
    "happy": HappyWatcher,
    "happy sealed": EncryptedHappyWatcher,
    "direct": DirectWatcher,
    "cognova": CognovaWatcher,
    "claudecodeui": ClaudeCodeUiWatcher,
}

WAYS: dict[str, tuple[Callable[[Watcher], None], Callable[[Watcher], None]]] = {
    "lags": (Watcher.lag, Watcher.hurry),
    "reconnects": (Watcher.cut, Watcher.come_back),
    "looks away": (lambda client: client.look_away(), lambda client: client.look_back()),
}

Plan = list[tuple[int, int, str]]
"""Spans of moments, one after the other, in which the second client is behind the first."""


async def play(kind: type[Watcher], scene: Scene, plan: Plan) -> tuple[Any, Any, Any]:
    """The final state of the first client, of the second, and of a client that reads everything at the end."""
    first, second = kind(scene), kind(scene)
    first.open(first.cursor(0), ANN)
    second.open(second.cursor(0))
    await settled()
    for moment in range(scene.end + 1):
        for begin, end, way in plan:
            leave, back = WAYS[way]
            if moment == end:
                back(second)
                await settled()
            if moment == begin and begin < end:
                leave(second)
                await settled()
        if moment < scene.end:
            scene.publish()
            await settled()
    late = kind(scene)
    late.open(late.cursor(0), ANN)
    await settled()
    held = first.seen(), second.seen(), late.seen()
    for client in (first, second, late):
        assert client.watcher is not None
        client.watcher.close()
    return held


def plans_of(spans: list[tuple[int, int]], ways: list[str]) -> Plan:
    """Spans that follow each other, in the order of the moments."""
    places = sorted({place for span in spans for place in span})
    return [(*pair, way) for pair, way in zip(zip(places[::2], places[1::2], strict=False), ways, strict=False)]
