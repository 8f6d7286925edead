"""An older database, before it is migrated: a complete backup in the same folder, or a refusal."""

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from fairlead.model.errors import Damaged, Unavailable
from fairlead.stores.sqlite.backup import back_up
from fairlead.stores.sqlite.connections import DATABASE, SPILL
from fairlead.stores.sqlite.schema import STEPS, own_version
from fairlead.stores.sqlite.spill import Spill

Migration = Literal["backup", "refuse"]

_log = logging.getLogger(__name__)


def prepare(folder: Path, schema: int, migration: Migration, now_ms: int) -> None:
    """Called with the schema of a database that is about to be migrated. Raises Damaged if that is not wanted, and
    Unavailable if there is no room for the backup: then nothing is migrated."""
    file = folder / DATABASE
    if migration == "refuse":
        raise Damaged(
            f"{file} has schema {schema} of an earlier Fairlead; Fairlead {own_version()} needs {len(STEPS)}, and the"
            " setting migrate is refuse. Start it once with --migrate backup: it keeps a backup, then migrates. Or use"
            " the earlier version.",
            file=str(file),
            schema=schema,
        )
    day = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%d-%H%M%S")
    target = folder / f"before-upgrade-schema-{schema}-{day}.db"
    try:
        back_up(file, Spill(folder / SPILL, sync=True), target)
    except (OSError, Unavailable) as error:
        raise Unavailable(
            f"{file} must be migrated, and there is no room for a backup of it first ({error}): make room and start"
            " again. Nothing was changed.",
            file=str(file),
        ) from error
    _log.warning("the database is migrated; a backup was made", extra={"schema": schema, "backup": str(target)})
