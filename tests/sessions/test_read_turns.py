"""The turns that each user has read: the number only grows, is separate per user, and is deleted with the session."""

import asyncio

from fairlead.model.auth import Identity
from fairlead.model.commands import Delete
from fairlead.model.ids import SessionId
from fairlead.model.web.session_changes import What
from fairlead.sessions.api.read_state import SPACE, GetReadState, MarkRead, TurnsRead
from fairlead.sessions.read_state import ReadState
from sessions.harness import CHILD, SESSION, CoreHarness

ANN = Identity("cred-ann", "ann", "ann", frozenset({"admin"}))
BOB = Identity("cred-bob", "bob", "bob", frozenset({"view"}))


def no_watchers(session: SessionId) -> frozenset[Identity]:
    return frozenset()


async def test_the_read_state_only_grows_and_is_separate_per_user(harness: CoreHarness) -> None:
    changes: list[tuple[SessionId, What]] = []
    book = ReadState(harness.store.documents, lambda session, what: changes.append((session, what)), no_watchers)
    mark, read = book.handlers()[MarkRead], book.handlers()[GetReadState]
    await asyncio.gather(mark(ANN, MarkRead(SESSION, 3)), mark(BOB, MarkRead(SESSION, 1)))
    await mark(ANN, MarkRead(SESSION, 2))
    assert (await read(ANN, GetReadState((SESSION, CHILD)))).turns == {SESSION: 3}
    assert (await read(BOB, GetReadState((SESSION,)))).turns == {SESSION: 1}
    assert changes == [(SESSION, "read")] * 2


async def test_the_read_state_is_deleted_with_the_session(harness: CoreHarness) -> None:
    await harness.open()
    book = ReadState(harness.store.documents, lambda session, what: None, no_watchers)
    await book.handlers()[MarkRead](ANN, MarkRead(SESSION, 3))
    await harness.do(Delete(session=SESSION))
    assert await harness.store.documents.get(SPACE, SESSION) is None


async def test_a_turn_read_on_one_device_is_read_on_all_devices_of_the_user(harness: CoreHarness) -> None:
    phone = Identity("cred-phone", ANN.user, "phone", ANN.scopes)
    book = ReadState(harness.store.documents, lambda session, what: None, lambda session: {phone})
    book.mark_read(SESSION, {phone}, 2)
    await book.tasks.wait()
    read = book.handlers()[GetReadState]
    assert await read(ANN, GetReadState((SESSION,))) == TurnsRead({SESSION: 2}, frozenset({SESSION}))
    assert await read(BOB, GetReadState((SESSION,))) == TurnsRead({})
