"""The audit log of a gateway: opened with the store; records starts, stops, sign-ins and refused credentials."""

import contextlib
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from fairlead.audit.facts import Fact
from fairlead.audit.log import AuditLog
from fairlead.auth.credentials import Credentials
from fairlead.auth.gate import AccessRefused
from fairlead.config import Config
from fairlead.model.auth import Identity
from fairlead.model.web.requests import Head
from fairlead.monitoring.counters import Counters
from fairlead.system.clock import Clock


async def open_audit(config: Config, clock: Clock, stack: contextlib.AsyncExitStack) -> AuditLog:
    audit = AuditLog(
        Path(config.data),
        clock,
        file_bytes=config.audit_file_bytes,
        sync=config.durability == "power",
        text=config.audit_text,
    )
    await audit.open()
    started = Fact("gateway.start", data={"version": version("fairlead"), "pid": os.getpid()}, stops=True)
    await audit.record(None, started)

    async def close() -> None:
        await audit.record(None, Fact("gateway.stop", data={"pid": os.getpid()}, stops=True))
        await audit.close()

    stack.push_async_callback(close)
    return audit


def record_sign_ins(credentials: Credentials, audit: AuditLog) -> None:
    """Record each check of a password."""

    def checked(who: Identity | None, user: str, peer: str) -> None:
        if who is None:
            audit.note_failed_sign_in({"code": "wrong_password", "user": user, "peer": peer})
        else:
            audit.note(who, Fact("sign_in", data={"by": "password", "peer": peer}))

    credentials.accounts.on_checked = checked


def refusals(audit: AuditLog, counters: Counters) -> Callable[[Head, AccessRefused], None]:
    """Return the function that counts rejected requests, and records those with a credential that is not valid."""

    def refused(head: Head, verdict: AccessRefused) -> None:
        counters.refused[verdict.code] += 1
        if verdict.code == "bad_credential" and not verdict.basic:
            audit.note_failed_sign_in({"code": verdict.code, "peer": head.peer, "path": head.path[:200]})

    return refused
