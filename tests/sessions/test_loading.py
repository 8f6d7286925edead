"""Loading a session from the store: only a session with a log is loaded."""

import pytest

from fairlead.model import queries as q
from fairlead.model.errors import NotFound
from fairlead.model.store import TRANSCRIPT, Summary
from sessions.harness import ANN, SESSION, CoreHarness


async def test_a_session_that_was_just_listed_is_not_loaded_without_its_file(harness: CoreHarness) -> None:
    """The session was unknown when its file was looked up, and is listed when its log is read: it has no log yet."""
    await harness.store.list_found((Summary(session=SESSION, agent="said", state=TRANSCRIPT),), ())
    with pytest.raises(NotFound):
        await harness.gateway.ask(ANN, q.GetSession(SESSION))
    assert harness.registry.loaded(SESSION) is None
