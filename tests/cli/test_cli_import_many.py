"""Import of many files: progress, an interruption and a second run, no duplicates. The command is a real process."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
import uuid
from pathlib import Path

import httpx2
import pytest

from agents.claude_transcripts.transcript_files import conversation, lines
from fairlead.config import Config
from fairlead.wiring import GatewayInfo, running
from local_http import local_client

PATIENCE = 3000.0
"""Seconds for the long test on a busy machine; the duration itself is not asserted."""
COMMAND = """
import signal, sys
from fairlead.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[0] = "fairlead"
main()
"""
"""Restores SIGINT: a shell makes the tests ignore it when they run in the background, and the command inherits that."""


def write_many(home: Path, count: int) -> set[str]:
    sessions = {str(uuid.uuid5(uuid.NAMESPACE_OID, f"many/{number}")) for number in range(count)}
    for number, session in enumerate(sorted(sessions)):
        folder = home / "projects" / f"-srv-{number % 20}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{session}.jsonl").write_bytes(lines(conversation(f"question {number}", session)))
    return sessions


async def all_listed(gateway: GatewayInfo, count: int) -> None:
    """Wait until all files are listed; the gateway finds them in the background."""
    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with local_client(base_url=gateway.url, headers=headers, timeout=PATIENCE) as http:
        while await _listed(http) < count:
            await asyncio.sleep(0.05)


async def _listed(http: httpx2.AsyncClient) -> int:
    found, before = 0, ""
    while True:
        query = {"limit": "1000", "archived": "any"} | ({"before": before} if before else {})
        page = (await http.get("/v1/sessions", params=query)).json()
        found += len(page["sessions"])
        before = page.get("next", "")
        if not before:
            return found


class Import:
    """The running command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.sessions: list[str] = []

    @classmethod
    async def start(cls, gateway: GatewayInfo, env: dict[str, str], *words: str) -> "Import":
        address = ("--url", gateway.url, "--token", gateway.token)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", COMMAND, "import", "--json", *words, *address),
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def until(self, count: int) -> None:
        """Wait until `count` files are reported."""
        assert self._process.stdout is not None
        while len(self.sessions) < count and (text := await self._process.stdout.readline()):
            self.sessions.append(json.loads(text)["session"])

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    async def end(self) -> tuple[int, str]:
        await self.until(sys.maxsize)
        assert self._process.stderr is not None
        words = (await self._process.stderr.read()).decode()
        return await self._process.wait(), words


def rows_of(data: Path) -> dict[str, int]:
    """The number of rows in each session's log."""
    with sqlite3.connect(data / "fairlead.db") as db:
        query = "select session, count(*) from entries join logs on logs.id = log where raw is not null group by 1"
        return dict(db.execute(query).fetchall())


async def imported(tmp_path: Path, count: int) -> None:
    sessions = write_many(tmp_path / "home", count)
    homes = (str(tmp_path / "home"),)
    config = Config(port=0, data=str(tmp_path / "data"), agent="demo", roots=(str(tmp_path),), claude_homes=homes)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "100"}
    async with asyncio.timeout(PATIENCE), running(config, env) as gateway:
        await all_listed(gateway, count)
        first = await Import.start(gateway, env)
        await first.until(count // 4)
        first.interrupt()
        code, words = await first.end()
        assert code == 130
        assert f"of {count} are imported. Run it again to continue" in words
        second = await Import.start(gateway, env)
        code, words = await second.end()
        assert (code, len(second.sessions)) == (0, len({*second.sessions})), words
        # The file in progress at the interruption may have been imported without being reported.
        assert not {*first.sessions} & {*second.sessions}
        assert count - 1 <= len(first.sessions) + len(second.sessions) <= count
        third = await Import.start(gateway, env, str(tmp_path / "home"))
        assert (await third.end())[0] == 0
        assert {*third.sessions} == sessions
    assert rows_of(tmp_path / "data") == dict.fromkeys(sessions, 4)


async def test_100_files_interrupted_and_imported_again(tmp_path: Path) -> None:
    await imported(tmp_path, 100)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_10000_files_interrupted_and_imported_again(tmp_path: Path) -> None:
    await imported(tmp_path, 10_000)
