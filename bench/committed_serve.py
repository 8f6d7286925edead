"""`fairlead` that records when each append was durable: seq and nanoseconds, into the file that COMMITS names.

For one figure alone (commit to client); everything else is measured on the unmodified program.
"""

import array
import atexit
import os
import time

from fairlead.cli.main import main
from fairlead.model.store import Batch, Lease
from fairlead.stores.sqlite import SqliteStore

noted = array.array("q")
append = SqliteStore.append


async def noting(self: SqliteStore, lease: Lease, batch: Batch, expected_head: int) -> int:
    head = await append(self, lease, batch, expected_head)
    now = time.monotonic_ns()
    for entry in batch.entries:
        noted.extend((entry.seq, now))
    return head


def write() -> None:
    with open(os.environ["FAIRLEAD_DATA"] + ".commits", "wb") as file:
        noted.tofile(file)


if __name__ == "__main__":
    SqliteStore.append = noting  # type: ignore[method-assign]  # that is what this file is for
    atexit.register(write)
    main()
