"""A node under load, as a process of its own: owns sessions, appends, asks and answers, watches, and writes down what
it was promised. Usage: worker.py NODE STORE FOLDER SECONDS SESSION..."""

import asyncio
import contextlib
import faulthandler
import json
import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.model.errors import FairleadError, Fenced, NotFound, OwnedElsewhere, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Entry
from fairlead.stores.nats.connection import read_address
from fairlead.stores.nats.lease import LeaseTimes
from fairlead.stores.nats.store import NatsOptions, NatsStore

TIMES = LeaseTimes(renew_s=0.5, believe_s=2.0, dead_s=3.0, deaf_s=1.5)
"""Short, to provoke that sessions are taken over."""
KEY = b"the key of a cell of tests"

Note = Callable[..., None]


class Owner:
    """Claims a session while it is free, and works on it until it is fenced."""

    def __init__(self, store: NatsStore, session: SessionId, note: Note) -> None:
        self._store = store
        self._session = session
        self._note = note
        self._lock = asyncio.Lock()
        self._decided: dict[int, str] = {}
        self._asked = 0
        self._head = 0
        self._lease: Any = None

    async def run(self) -> None:
        while True:
            try:
                self._lease, _, self._head = await self._store.claim(self._session)
                self._note(k="claimed", s=self._session, e=self._lease.epoch)
                await self._load()
                await self._work()
            except OwnedElsewhere:
                await asyncio.sleep(0.3 + random.random() * 0.3)
            except Fenced:
                self._note(k="fenced", s=self._session)
            except FairleadError as error:
                self._note(k="left", s=self._session, w=str(error))
                await asyncio.sleep(0.2)
            finally:
                self._lease = None

    async def answer(self, request: int, by: str) -> str | None:
        """Decide a request once; return who decided it, None if it was not asked here."""
        async with self._lock:
            if self._lease is None or request > self._asked:
                return None
            if request not in self._decided:
                await self._put({"k": "resolved", "r": request, "by": by})
                self._decided[request] = by
            return self._decided[request]

    async def _load(self) -> None:
        self._decided, self._asked, after = {}, 0, 0
        while (page := await self._store.read(self._session, after, 1000)).entries:
            for entry in page.entries:
                event = json.loads(entry.event)
                if event["k"] == "resolved":
                    self._decided[event["r"]] = event["by"]
                elif event["k"] == "asked":
                    self._asked = max(self._asked, event["r"])
            after = page.entries[-1].seq

    async def _work(self) -> None:
        for number in range(1, 1 << 60):
            async with self._lock:
                if number % 20:
                    await self._put({"k": "text", "u": uuid.uuid4().hex})
                else:
                    await self._put({"k": "asked", "r": self._asked + 1})
                    self._asked += 1
            await asyncio.sleep(random.random() * 0.02)

    async def _put(self, event: dict[str, Any]) -> None:
        data = json.dumps(event)
        entry = Entry(self._head + 1, 0, int(time.time() * 1000), event["k"], data.encode())
        while True:
            try:
                self._head = await self._store.append(self._lease, Batch(entries=(entry,)), self._head)
                break
            except Unavailable as error:
                self._note(k="waits", s=self._session, w=str(error))
        self._note(k="acked", s=self._session, q=entry.seq, d=data)


async def watch(store: NatsStore, session: SessionId, note: Note) -> None:
    """Read every entry once, in order, whatever happens."""
    changed = asyncio.Event()
    store.follow(lambda change: changed.set() if change.session == session else None)
    after = 0
    while True:
        try:
            changed.clear()
            page = await store.read(session, after, 1000)
        except NotFound:
            page = None
        for entry in page.entries if page is not None else ():
            note(k="saw", s=session, q=entry.seq, p=entry.prev, d=entry.event.decode())
            after = entry.seq
        # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the result.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await changed.wait()


async def answer(store: NatsStore, sessions: list[SessionId], note: Note) -> None:
    """Answer requests of any session, at whichever node owns it."""
    for number in range(1 << 60):
        session, by = random.choice(sessions), f"{store.node}-{os.getpid()}-{number}"
        try:
            page = await store.tail(session, None, 1, ("asked",))
            if page.entries:
                request = json.loads(page.entries[-1].event)["r"]
                body = json.dumps([session, request, by]).encode()
                winner = json.loads(await store.peers.ask(await store.home(session), "answer", body, 3.0))
                if winner is not None:
                    note(k="answered", s=session, r=request, by=winner)
        except FairleadError:
            pass
        await asyncio.sleep(0.03)


async def main(node: str, address: str, folder: Path, seconds: float, sessions: list[SessionId]) -> None:
    history = (folder / f"{node}.{os.getpid()}.history").open("w", buffering=1)

    def note(**fields: Any) -> None:
        history.write(json.dumps({"t": time.time(), **fields}) + "\n")

    store = await NatsStore.join(folder / node, read_address(address), NatsOptions(node=node, key=KEY, times=TIMES))
    owners = {session: Owner(store, session, note) for session in sessions}

    async def decide(asker: str, body: bytes) -> bytes:
        session, request, by = json.loads(body)
        return json.dumps(await owners[session].answer(request, by)).encode()

    store.peers.serve("answer", decide)
    note(k="up", position=store.position)
    work = [owner.run() for owner in owners.values()]
    work += [watch(store, session, note) for session in sessions]
    tasks = [asyncio.create_task(one) for one in (*work, answer(store, sessions, note))]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        note(k="died", w=repr(task.exception()))
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    note(k="ends")
    await store.close()
    note(k="down", repairs=store._journal.follower.repairs)


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)
    _, node, address, folder, seconds, *sessions = sys.argv
    asyncio.run(main(node, address, Path(folder), float(seconds), [SessionId(session) for session in sessions]))
