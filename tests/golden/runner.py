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
from fairlead.clients.mcp.reading import fit_page
from fairlead.model.store import event_line
from fairlead_testing.replay import SESSION, RecordedLog, ReplayClient, Scene, settled
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
    "mcp": lambda log: mcp_pages(log),
}
"""The protocols with a history over REST, or with snapshots."""


class _Message(msgspec.Struct):
    content: msgspec.Raw


DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "happy": lambda payload: bytes(msgspec.json.decode(payload, type=_Message).content),
}
"""What is kept of a frame's payload. Happy: the envelope; the message around it is the same for each."""


def mcp_pages(log: RecordedLog) -> list[list[str]]:
    """The conversation as an agent reads it, page by page from the end."""
    lines = [event_line(SESSION, entry) for entry in log.entries]
    pages = []
    while lines:
        shown, first = fit_page(lines)
        pages.append(shown)
        lines = [line for line in lines if first is not None and msgspec.json.decode(line)["seq"] < first]
    return pages


def client_of(protocol: str) -> type[ReplayClient]:
    """The first client of a protocol: the one whose frames are JSON in plain text."""
    return next(kind for name, kind in CLIENTS.items() if name.partition(" ")[0] == protocol)


async def outputs(protocol: str, log: RecordedLog) -> dict[str, bytes]:
    """The content of each golden file of a case."""
    if protocol not in {name.partition(" ")[0] for name in CLIENTS}:
        return _history(protocol, log)
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
    return files | _history(protocol, log)


def _history(protocol: str, log: RecordedLog) -> dict[str, bytes]:
    if protocol not in HISTORIES:
        return {}
    return {"history.json": json.dumps(HISTORIES[protocol](log), ensure_ascii=False, indent=1).encode() + b"\n"}


async def _connect(protocol: str, scene: Scene, received: list[bytes]) -> ReplayClient:
    """Connect a client that has nothing yet; each frame becomes a line in `received`."""
    decode = DECODERS.get(protocol, bytes)
    take = {"take": lambda _, payload: received.append(decode(payload).rstrip(b"\n") + b"\n")}
    recorder: type[ReplayClient] = type("Recorder", (client_of(protocol),), take)
    client = recorder(scene)
    client.open(client.cursor(0))
    await settled()
    return client
