"""The audit log of a running gateway: entries of many callers are written together, in a thread of their own."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from fairlead.audit.api import AuditEntry, AuditHead, AuditPage, ReadAudit
from fairlead.audit.facts import Fact
from fairlead.audit.files import AuditFiles
from fairlead.model.auth import Identity
from fairlead.model.errors import Unavailable
from fairlead.system.clock import Clock
from fairlead.system.tasks import TaskSet

LOST: Final = "audit.lost"
"""The action of an entry that counts those that could not be written."""
FAILED: Final = "failed"
REPEATED: Final = "repeated"
PER_PAGE: Final = 500
SCANNED: Final = 50_000
"""Entries that one page of a filter looks at."""
FAILURES_PER_MINUTE: Final = 60
"""Failed sign-ins that are recorded one by one. The next one that is recorded counts the others."""

T = TypeVar("T")

_log = logging.getLogger("fairlead.audit")


class AuditLog:
    """Call `open` first and `close` at the end. Entries are written in the order of the calls."""

    def __init__(self, data: Path, clock: Clock, *, file_bytes: int, sync: bool, text: bool = False) -> None:
        """`text`: entries of prompts have their text."""
        self.text = text
        self._files = AuditFiles(data, file_bytes, sync=sync)
        self._clock = clock
        self._waiting: list[tuple[AuditEntry, asyncio.Future[int] | None]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fairlead-audit")
        self._tasks = TaskSet()
        self._writing = False
        self._lost = 0
        self.problem = ""
        """Why the last entries could not be written; empty if they were."""
        self._failures = float(FAILURES_PER_MINUTE)
        self._failed_at = clock.monotonic()
        self._unrecorded = 0

    @property
    def head(self) -> AuditHead:
        return self._files.head

    @property
    def lost(self) -> int:
        """Entries that could not be written, and that the next one counts."""
        return self._lost

    async def open(self) -> None:
        await self._run(self._files.open, self._clock.now_ms())

    async def close(self) -> None:
        if self._unrecorded:
            self.note(None, Fact("sign_in.failed", data={"unrecorded": self._unrecorded}))
        await self._tasks.wait()
        await self._run(self._files.close)
        self._thread.shutdown()
        _log.info("audit log closed", extra={"n": self.head.n, "hash": self.head.hash})

    async def record(self, who: Identity | None, fact: Fact) -> int:
        """Write an entry and return its number. It is stored when this returns.

        Raises Unavailable if it cannot be written: then the action must not be done. An action that only stops or
        withdraws something is done nevertheless (0 is returned), and counted by the next entry that can be written."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._add(self._entry(who, fact), done)
        try:
            # Shielded: a caller that leaves does not undo the entry.
            return await asyncio.shield(done)
        except OSError as error:
            if fact.stops:
                self._lost += 1
                return 0
            raise Unavailable(
                f"The audit log cannot be written ({error.strerror}), so nothing was done: make room and repeat.",
                error=error.strerror or "",
            ) from error

    def note(self, who: Identity | None, fact: Fact, of: int = 0) -> None:
        """Write an entry without waiting for it."""
        self._add(msgspec.structs.replace(self._entry(who, fact), of=of), None)

    def note_failed_sign_in(self, data: dict[str, str]) -> None:
        """Note a failed sign-in, or count it if there were too many."""
        now = self._clock.monotonic()
        earned = (now - self._failed_at) * FAILURES_PER_MINUTE / 60
        self._failures, self._failed_at = min(self._failures + earned, FAILURES_PER_MINUTE), now
        if self._failures < 1:
            self._unrecorded += 1
            return
        self._failures -= 1
        more = {"unrecorded": self._unrecorded} if self._unrecorded else {}
        self._unrecorded = 0
        self.note(None, Fact("sign_in.failed", data={**data, **more}))

    async def read(self, who: Identity, call: ReadAudit) -> AuditPage:
        return await asyncio.to_thread(self._page, call)

    # --- writing

    def _entry(self, who: Identity | None, fact: Fact) -> AuditEntry:
        # An agent of the gateway is known by its session, whatever credential its user has.
        source = {} if who is None or not who.session else {"from_session": who.session}
        return AuditEntry(
            n=0,
            at=self._clock.now_ms(),
            action=fact.action,
            user="" if who is None else who.user,
            credential="" if who is None else who.credential,
            name="" if who is None else who.name,
            agent=who is not None and who.agent,
            session=fact.session,
            data={**fact.data, **source},
            prev="",
            hash="",
        )

    def _add(self, entry: AuditEntry, done: asyncio.Future[int] | None) -> None:
        self._waiting.append((entry, done))
        if not self._writing:
            self._writing = True
            self._tasks.spawn(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._write(batch)
        finally:
            self._writing = False

    async def _write(self, batch: list[tuple[AuditEntry, asyncio.Future[int] | None]]) -> None:
        lost = self._lost
        first = [self._entry(None, Fact(LOST, data={"entries": lost}))] if lost else []
        try:
            written = await self._run(self._files.append, [*first, *(entry for entry, _ in batch)])
        except Exception as error:
            self.problem = str(error)
            _log.error("audit log not written", extra={"entries": len(batch), "error": str(error)})
            for _, done in batch:
                if done is None:
                    self._lost += 1
                elif not done.cancelled():
                    done.set_exception(error)
            return
        self._lost -= lost
        self.problem = ""
        for (_, done), entry in zip(batch, written[len(first) :], strict=True):
            if done is not None and not done.cancelled():
                done.set_result(entry.n)

    async def _run(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    # --- reading

    def _page(self, call: ReadAudit) -> AuditPage:
        head, found, last = self.head, [], 0
        for entry in islice(self._files.backwards(call.before), SCANNED):
            last = entry.n
            if _matches(call, entry):
                found.append(entry)
                if len(found) == min(call.limit, PER_PAGE):
                    break
        return AuditPage(entries=tuple(found), head=head, next=last if last > 1 else None)


def _matches(call: ReadAudit, entry: AuditEntry) -> bool:
    if call.user and call.user != entry.user:
        return False
    if call.session and call.session != entry.session:
        return False
    return entry.action.startswith(call.action)
