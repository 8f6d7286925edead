"""A removed user: whatever they did before, none of it runs, sends notifications or is stored for them afterwards."""

import asyncio
import base64
import contextlib
import os
import re
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from fairlead.terminals.registry import TerminalRegistry
from laws.two_users import SCOPES, TwoUserGateway, open_gateway

pytestmark = pytest.mark.process

STAY = ("credentials", "credentials.used", "user_numbers")
"""Documents that may name the user: ids and numbers that are never assigned again."""


class AnnasActions:
    """Actions of Anna, and a search for their traces."""

    def __init__(self, gateway: TwoUserGateway, folder: Path, stack: contextlib.AsyncExitStack) -> None:
        self.gateway = gateway
        self.folder = folder
        self._stack = stack
        self._tasks: list[asyncio.Task[None]] = []

    def deeds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "talk": self.talk,
            "share": self.share,
            "be shared with": self.be_shared_with,
            "shell": self.shell,
            "desk": self.launcher,
            "push": self.push,
            "schedule": self.schedule,
            "upload": self.upload,
            "prefer": self.prefer,
            "remember": self.remember,
        }

    async def talk(self) -> None:
        await self.gateway.post("anna", "/v1/sessions", {"text": "SCRIPT:slow 4000"})

    async def share(self) -> None:
        made = await self.gateway.post("anna", "/v1/sessions")
        await self.gateway.post("anna", f"/v1/sessions/{made['session']}/share", {"user": "bert"})

    async def be_shared_with(self) -> None:
        made = await self.gateway.post("bert", "/v1/sessions")
        await self.gateway.post("bert", f"/v1/sessions/{made['session']}/share", {"user": "anna"})

    async def shell(self) -> None:
        await self._open("/v1/terminals/mine", None)

    async def launcher(self) -> None:
        await self._open("/shell", {"type": "init", "projectPath": str(self.folder), "provider": "plain-shell"})

    async def _open(self, path: str, first: object) -> None:
        """Open a program on a socket; it is running once it has printed something."""
        headers = {"Authorization": f"Bearer {self.gateway.tokens['anna']}"}
        address = self.gateway.url.replace("http", "ws", 1) + path
        socket = await self._stack.enter_async_context(connect(address, additional_headers=headers, proxy=None))
        if first is not None:
            await socket.send(msgspec.json.encode(first).decode())
        await socket.recv()

        async def read() -> None:
            with contextlib.suppress(ConnectionClosed):
                async for _ in socket:
                    pass

        self._tasks.append(asyncio.create_task(read()))

    async def push(self) -> None:
        point = ec.generate_private_key(ec.SECP256R1()).public_key()
        raw = point.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        keys = {"p256dh": _text(raw), "auth": _text(os.urandom(16))}
        body = {"endpoint": "http://127.0.0.1:9/push", "keys": keys}
        await self.gateway.post("anna", "/v1/push/subscriptions", body)
        await self.gateway.post("anna", "/cognova/api/push/subscriptions", body)

    async def schedule(self) -> None:
        body = {"name": "hers", "schedule": "* * * * *", "prompt": "SCRIPT:slow 4000"}
        agent = (await self.gateway.post("anna", "/cognova/api/agents", body))["data"]["id"]
        with contextlib.suppress(AssertionError):  # the limit of concurrent runs may be reached
            await self.gateway.post("anna", f"/cognova/api/agents/{agent}/run")

    async def upload(self) -> None:
        headers = {"authorization": f"Bearer {self.gateway.tokens['anna']}"}
        path = "/claudecodeui/api/assets/files"
        answer = await self.gateway.http.post(path, files={"files": ("a.txt", b"hers")}, headers=headers)
        assert answer.status_code == 200, answer.text

    async def prefer(self) -> None:
        answer = await self.gateway.call("anna", "PUT", "/cognova/api/settings", {"theme": "dark"})
        assert answer.status_code < 500
        answer = await self.gateway.call("anna", "PATCH", "/claudecodeui/api/user/preferences", {"theme": "dark"})
        assert answer.status_code == 200, answer.text
        for project in await self.gateway.get("anna", "/claudecodeui/api/projects"):
            await self.gateway.post("anna", f"/claudecodeui/api/projects/{project['projectId']}/toggle-star")

    async def remember(self) -> None:
        await self.gateway.post("anna", "/cognova/api/memory/store", {"content": "hers", "chunkType": "fact"})
        await self.gateway.post("anna", "/cognova/api/hooks/events", {"eventType": "SessionEnd"})

    async def close(self) -> None:
        await asyncio.gather(*self._tasks)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def named(text: str, names: list[str]) -> bool:
    return any(re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", text) for name in names)


def found(folder: Path, names: list[str], terminals: TerminalRegistry) -> list[object]:
    """Everything outside the logs that contains one of these names."""
    with contextlib.closing(sqlite3.connect(f"file:{folder}/data/fairlead.db?mode=ro", uri=True)) as db:
        documents = [row for row in db.execute("select * from documents") if row[0] not in STAY]
        kept = [
            *documents,
            *db.execute("select * from shelf"),
            *db.execute("select * from feed"),
            *db.execute("select session, owner, shared from sessions"),
        ]
    rows: list[object] = [row for row in kept if named(str(row), names)]
    rows += [name for name in terminals.names() if named(name, names) and (one := terminals.find(name)) and one.running]
    return rows + [path for path in (folder / "data" / "uploads").rglob("*") if named(str(path), names)]


async def history(folder: Path, deeds: list[str], terminals: list[TerminalRegistry]) -> None:
    async with open_gateway(folder) as gateway, contextlib.AsyncExitStack() as stack:
        await gateway.add("bert")
        await gateway.add("anna")
        await gateway.add("phone", SCOPES, "anna")
        actions = AnnasActions(gateway, folder, stack)
        for deed in deeds:
            await actions.deeds()[deed]()
        tokens = (await gateway.get("admin", "/v1/tokens"))["tokens"]
        names = ["anna", *(token["id"] for token in tokens if token["user"] == "anna")]
        ran = {one["session"] for one in (await gateway.get("admin", "/v1/sessions"))["sessions"]}
        assert not {"talk", "shell", "push", "schedule"} & {*deeds} or found(folder, names, terminals[-1])
        assert (await gateway.call("admin", "DELETE", "/v1/users/anna")).status_code == 200
        await actions.close()
        for session in ran:
            view = await gateway.rested("admin", session)
            assert not view.get("queue")
            assert named(view["summary"]["owner"], ["bert"]) or not view["summary"]["owner"]
        children = sqlite3.connect(f"file:{folder}/data/fairlead.db?mode=ro", uri=True)
        with contextlib.closing(children):
            # The end of an agent is stored as soon as it has ended.
            while children.execute("select count(*) from documents where space = 'children'").fetchone()[0]:
                await asyncio.sleep(0.02)
        assert found(folder, names, terminals[-1]) == []
        # The next user of that name is a different person.
        await gateway.add("anna")
        assert (await gateway.get("anna", "/v1/sessions"))["sessions"] == []
        assert (await gateway.get("anna", "/cognova/api/agents"))["data"] == []
        assert (await gateway.get("anna", "/v1/terminals"))["terminals"] == []
        assert (await gateway.get("anna", "/claudecodeui/api/user/preferences"))["preferences"] == {}
        assert not any(project["isStarred"] for project in await gateway.get("anna", "/claudecodeui/api/projects"))


@pytest.fixture(scope="module")
def terminals() -> Iterator[list[TerminalRegistry]]:
    made: list[TerminalRegistry] = []

    class RecordedRegistry(TerminalRegistry):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairlead.wiring.gateway.TerminalRegistry", RecordedRegistry)
        yield made


DEEDS = sorted(("talk", "share", "be shared with", "shell", "desk", "push", "schedule", "upload", "prefer", "remember"))


@settings(max_examples=5, deadline=None)
@given(deeds=st.lists(st.sampled_from(DEEDS), max_size=6))
def test_nothing_of_a_removed_user_is_left(terminals: list[TerminalRegistry], deeds: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(history(Path(folder), deeds, terminals))


async def test_nothing_remains_of_a_user_who_did_everything(terminals: list[TerminalRegistry], tmp_path: Path) -> None:
    await history(tmp_path, DEEDS, terminals)
