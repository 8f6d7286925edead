"""What the clients of a protocol receive from a log: the golden files of a case, by name (see `golden/cases.py`).

The clients are those of the replay law (`laws/replay_clients.py`): they bring the encoder, the reducer of a projection
and the cursor. The hub and the subscriptions are the core's own.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from clients.claudecodeui import chat_offline as claudecodeui
from clients.cognova import chat_offline as cognova
from fairlead_testing.replay import RecordedLog, ReplayClient, Scene, settled
from laws.replay_clients import CLIENTS, AhpReplay


def ahp_snapshots(log: RecordedLog) -> Any:
    """The snapshots of both channels for a client that connects at the end."""
    scene = AhpReplay.scene_of(log)
    scene.moment = scene.end
    client = AhpReplay(scene)
    client.cursor(0)
    return {**client.client.sessions, **client.client.chats}


HISTORIES: dict[str, Callable[[RecordedLog], Any]] = {
    "claudecodeui": lambda log: claudecodeui.ChatRecorder().replay(log).history(),
    "cognova": lambda log: cognova.ChatRecorder().replay(log).messages(),
    "ahp": ahp_snapshots,
}
"""The protocols with a history over REST, or with snapshots."""


class _Message(msgspec.Struct):
    content: msgspec.Raw


DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "happy": lambda payload: bytes(msgspec.json.decode(payload, type=_Message).content),
}
"""What is kept of a frame's payload. Happy: the envelope; the message around it is the same for each."""


def client_of(protocol: str) -> type[ReplayClient]:
    """The first client of a protocol: the one whose frames are JSON in plain text."""
    return next(kind for name, kind in CLIENTS.items() if name.partition(" ")[0] == protocol)


async def outputs(protocol: str, log: RecordedLog) -> dict[str, bytes]:
    """The content of each golden file of a case."""
    live: list[bytes] = []
    catchup: list[bytes] = []
    scene = client_of(protocol).scene_of(log)
    there = await _connect(protocol, scene, live)
    for _ in range(scene.end):
        scene.publish()
        await settled()
    late = await _connect(protocol, scene, catchup)
    for client in (there, late):
        client.disconnect()
    files = {"live.jsonl": b"".join(live)}
    if catchup != live:
        files["catchup.jsonl"] = b"".join(catchup)
    if protocol in HISTORIES:
        files["history.json"] = json.dumps(HISTORIES[protocol](log), ensure_ascii=False, indent=1).encode() + b"\n"
    return files


async def _connect(protocol: str, scene: Scene, received: list[bytes]) -> ReplayClient:
    """Connect a client that has nothing yet; each frame becomes a line in `received`."""
    decode = DECODERS.get(protocol, bytes)
    take = {"take": lambda _, payload: received.append(decode(payload).rstrip(b"\n") + b"\n")}
    recorder: type[ReplayClient] = type("Recorder", (client_of(protocol),), take)
    client = recorder(scene)
    client.open(client.cursor(0))
    await settled()
    return client
