"""The room on the disk of the data folder, judged."""

import shutil
from pathlib import Path
from typing import Final

from fairlead.monitoring.api import HealthCheck

FULL: Final = 16 << 20
"""Free bytes below which the disk counts as full: a database can need this much for one commit and its checkpoint."""
LITTLE: Final = 1 << 30
"""Free bytes below which there is a warning: a busy day of sessions writes some hundred megabytes."""
_PART: Final = 10
"""On a small disk the warning begins at this part of it."""


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def check_disk(folder: Path) -> HealthCheck:
    usage = shutil.disk_usage(folder)
    found = f"{_size(usage.free)} free of {_size(usage.total)}"
    if usage.free < FULL:
        todo = "Free disk space now: nothing can be stored. See fairlead du and fairlead prune."
        return HealthCheck(name="disk", level="bad", found=found, todo=todo)
    if usage.free < min(LITTLE, usage.total // _PART):
        todo = "Free disk space; see fairlead du and fairlead prune."
        return HealthCheck(name="disk", level="warn", found=found, todo=todo)
    return HealthCheck(name="disk", found=found)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= LITTLE else f"{count >> 20} MiB"
