"""Sessions with only a transcript, written by another program: its rows, and rows that are appended later."""

import asyncio
import contextlib
import errno
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from clients.mylifedb.harness import Frame, Tab
from fairlead.agents.claude.transcripts.file_reader import TranscriptFile
from fairlead.config import Config
from fairlead.wiring import GatewayInfo, running
from fairlead_testing.mylifedb_client import MyLifeDbClient
from local_http import local_client
from patience import PATIENCE

pytestmark = pytest.mark.process

SESSION = "7afc3e49-d4dd-410a-8fc2-8d26cf6e1f80"
START = "2026-01-19T04:45:15.012Z"


def row(number: int, **fields: Any) -> Frame:
    uuid = f"00000000-0000-4000-8000-{number:012d}"
    parent = f"00000000-0000-4000-8000-{number - 1:012d}" if number > 1 else None
    kind = "user" if number % 2 else "assistant"
    content = f"prompt {number}" if number % 2 else [{"type": "text", "text": f"answer {number}"}]
    place = {"cwd": "/srv", "sessionId": SESSION, "version": "2.1.325", "isSidechain": False, "userType": "external"}
    message = {"role": kind, "content": content, **({"id": f"msg_{number}"} if kind == "assistant" else {})}
    head = {"parentUuid": parent, "type": kind, "message": message, "uuid": uuid, "timestamp": START}
    return {**head, **place, **fields}


class Home:
    """A user's home folder with the CLI's files in it."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.folder = folder / ".claude" / "projects" / "-srv"
        self.folder.mkdir(parents=True)
        self.project.mkdir()
        self.file = self.folder / f"{SESSION}.jsonl"

    def write(self, *rows: Frame | bytes) -> list[bytes]:
        lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in rows]
        with self.file.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))
        return lines


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@contextlib.asynccontextmanager
async def gateway(home: Home, tmp_path: Path, listed: str = f"/{SESSION}") -> AsyncIterator[GatewayInfo]:
    """Run a gateway; `listed` is the path below the sessions that shows whether the file was found."""
    config = Config(
        port=0,
        data=str(tmp_path / "data"),
        agent="demo",
        roots=(str(tmp_path),),
        claude_homes=(str(tmp_path / ".claude"),),
    )
    async with running(config, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) as info:
        headers = {"Authorization": f"Bearer {info.token}"}
        async with (
            local_client(base_url=info.url, headers=headers) as http,
            asyncio.timeout(PATIENCE),
        ):
            # The gateway answers requests before it has found all files.
            while SESSION not in (await http.get(f"/api/claude/sessions{listed}")).text:
                await asyncio.sleep(0.01)
        yield info


@contextlib.asynccontextmanager
async def tab(gateway: GatewayInfo, query: str = "") -> AsyncIterator[Tab]:
    url = gateway.url.replace("http", "ws", 1) + f"/api/claude/sessions/{SESSION}/subscribe{query}"
    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with connect(url, additional_headers=headers, max_size=None, compression=None) as socket:
        opened = Tab(socket, MyLifeDbClient())
        listening = asyncio.create_task(opened.listen())
        try:
            yield opened
        finally:
            await socket.close()
            await asyncio.wait({listening})


def last(number: int) -> Any:
    uuid = row(number)["uuid"]
    return lambda frame: frame.get("uuid") == uuid


@pytest.mark.rules("S000-010", "S000-012", "S000-014", "S000-019", "S000-091", "S000-149", "S000-199", "S000-224")
async def test_the_file_is_history_and_appended_rows_follow(home: Home, tmp_path: Path) -> None:
    queue = {"type": "queue-operation", "operation": "dequeue", "timestamp": START, "sessionId": SESSION}
    progress = {**row(3), "type": "progress", "data": {"type": "bash_progress"}, "toolUseID": "t"}
    del progress["message"]
    home.write(queue, row(1), row(2), progress, row(4))
    async with gateway(home, tmp_path) as served, tab(served) as client:
        await client.until(last(4))
        home.write(row(5), row(6))
        await client.until(last(6))
        home.write(row(7), {"type": "custom-title", "customTitle": "Named", "sessionId": SESSION}, row(8))
        await client.until(last(8))
        assert client.frames == [json.loads(line) for line in home.file.read_bytes().splitlines()]
        async with tab(served) as late:
            await late.until(last(8))
            assert late.frames == client.frames


@pytest.mark.rules("S000-148", "S000-149")
async def test_a_line_written_in_pieces_is_sent_when_complete(home: Home, tmp_path: Path) -> None:
    home.write(row(1))
    async with gateway(home, tmp_path) as served, tab(served) as client:
        await client.until(last(1))
        whole = json.dumps(row(2)).encode() + b"\n"
        with home.file.open("ab", buffering=0) as file:
            for place in range(0, len(whole), 40):
                file.write(whole[place : place + 40])
                await asyncio.sleep(0)
        await client.until(last(2))
        assert len(client.frames) == 2


@pytest.mark.rules("S000-213", "S000-216")
async def test_a_read_that_fails_sends_nothing_and_the_next_one_goes_on(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write(row(1))
    async with gateway(home, tmp_path) as served, tab(served) as client:
        await client.until(last(1))
        failed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def broken(file: TranscriptFile) -> None:
            loop.call_soon_threadsafe(failed.set)
            raise OSError(errno.EIO, "the disk does not answer")

        with monkeypatch.context() as patched:
            patched.setattr(TranscriptFile, "read_more", broken)
            home.write(row(2))
            await asyncio.wait_for(failed.wait(), PATIENCE)
        home.write(row(3))
        await client.until(last(3))
        assert client.frames == [row(1), row(2), row(3)], "no error, and nothing lost"


async def test_a_bad_line_is_left_out_and_the_rest_goes_on(home: Home, tmp_path: Path) -> None:
    home.write(row(1), b"{ this is no record", b"", row(2))
    async with gateway(home, tmp_path) as served, tab(served) as client:
        await client.until(last(2))
        home.write(b"\xff\xfe", row(3))
        await client.until(last(3))
        assert [frame["type"] for frame in client.frames] == ["user", "assistant", "user"]


@pytest.mark.rules("S000-217")
@pytest.mark.parametrize("at_once", [8 << 20, 1000])
async def test_a_thousand_records_open_with_their_last_pages(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Also for a file that is still being read: pages are counted when reading is done."""
    monkeypatch.setattr("fairlead.sessions.transcripts.filling.AT_ONCE_BYTES", at_once)
    home.write(*(row(number) for number in range(1, 1301)))
    async with gateway(home, tmp_path, listed="/all") as served:
        async with tab(served, "?pages=1") as client:
            assert await client.until("session_info") == {
                "type": "session_info",
                "totalPages": 3,
                "lowestBurstPage": 1,
            }
            await client.until(last(1300))
            assert len(client.frames) == 1 + 800
        async with tab(served, "?last=50") as client:
            await client.until(last(1300))
            assert len(client.frames) == 50
        async with tab(served) as client:
            await client.until(last(1300))
            assert client.frames == [row(number) for number in range(1, 1301)]
