"""Tests for every store adapter: subclass `StoreConformance` and give it a fixture `make_store`.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        async def make_store(self) -> AsyncIterator[Stores]:
            stores = MyStores()
            yield stores
            await stores.close()

The tests are coroutines (pytest-asyncio runs them in auto mode) and use nothing of pytest themselves.

NOT promised by the port, and so not tested here: that a read on one node sees an append of another at once (tests wait
for it), any order between sessions, that entries named in `drop` are gone when `append` returns or at all, which text
other than user messages and answers is indexed, how hits rank, and how far apart epochs are.
"""

from fairlead_testing.store_conformance.appending import Appending
from fairlead_testing.store_conformance.documents import KeepingDocuments
from fairlead_testing.store_conformance.helping import (
    PATIENCE,
    Stores,
    assert_chained,
    assert_stored,
    batch,
    entry,
    new_session,
    read_all,
    refusal,
    seqs,
    until,
)
from fairlead_testing.store_conformance.listing import Listing
from fairlead_testing.store_conformance.owning import Owning

__all__ = [
    "PATIENCE",
    "StoreConformance",
    "Stores",
    "assert_chained",
    "assert_stored",
    "batch",
    "entry",
    "new_session",
    "read_all",
    "refusal",
    "seqs",
    "until",
]


class StoreConformance(Appending, Owning, Listing, KeepingDocuments):
    """The whole suite."""
