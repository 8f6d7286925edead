"""A session out of the store: only what has a log is loaded."""

import pytest

from fairlead.model import queries as q
from fairlead.model.errors import NotFound
from fairlead.model.store import TRANSCRIPT, Summary
from sessions.harness import ANN, SESSION, CoreHarness


async def test_a_session_that_was_listed_a_moment_ago_is_not_loaded_without_its_file(rig: CoreHarness) -> None:
    """It was not there when its file was asked for, and is in the list when its log is: it has none yet."""
    await rig.store.list_found((Summary(session=SESSION, agent="said", state=TRANSCRIPT),), ())
    with pytest.raises(NotFound):
        await rig.gateway.ask(ANN, q.GetSession(SESSION))
    assert rig.registry.loaded(SESSION) is None
