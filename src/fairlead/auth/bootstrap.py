"""The first admin token: from the environment, else made once and kept in the data folder, readable by its owner."""

import os
from pathlib import Path
from typing import Final

from fairlead.auth.credentials import Credentials

FILE: Final = "admin-token"


async def bootstrap_admin(credentials: Credentials, data: Path, given: str | None) -> str:
    """The token with which the commands on this machine reach the gateway.

    `given` is the value of FAIRLEAD_TOKEN; an empty one counts as none. A kept token that was revoked, or that the
    store does not know (another data folder's file), is replaced: somebody must be able to come in."""
    token = (given or "").strip()
    if token:
        credentials.give(token)
        return token
    path = data / FILE
    kept = _read(path)
    if kept:
        record = await credentials.restore(kept)
        if record is not None and not record.revoked:
            return kept
    new = await credentials.create("token", "admin", ("admin",))
    _write(path, new.secret)
    return new.secret


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""


def _write(path: Path, token: str) -> None:
    """Whole or not at all, and never for a moment readable by others."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
