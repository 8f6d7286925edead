"""The first admin token: from the environment, or created once in the data folder, readable by its owner."""

from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.auth.credentials import Credentials
from fairlead.system.private_files import write_private

FILE: Final = "admin-token"


async def bootstrap_admin(credentials: Credentials, data: Path, given: str | None) -> str:
    """Return the token with which the commands on this machine reach the gateway.

    `given` is the value of FAIRLEAD_TOKEN; an empty one counts as unset. A token in the file that was revoked, or that
    the store does not know (another data folder's file), is replaced: there must always be a way to sign in.
    """
    token = (given or "").strip()
    if token:
        credentials.accept_environment_token(token)
        return token
    path = data / FILE
    with suppress(FileNotFoundError):
        kept = path.read_text(encoding="utf-8", errors="replace").strip()
        record = credentials.find_by_secret(kept)
        if record is not None and not record.revoked:
            return kept
    new = await credentials.create("token", "admin", ("admin",))
    write_private(path, f"{new.secret}\n".encode())
    return new.secret
