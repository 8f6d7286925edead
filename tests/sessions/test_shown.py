"""What each user was shown: it only grows, is each one's own, and goes with the session."""

import asyncio

from fairlead.model.auth import Identity
from fairlead.model.commands import Delete
from fairlead.model.ids import SessionId
from fairlead.model.session_changes import What
from fairlead.sessions.api.read_state import SPACE, GetReadState, MarkRead, TurnsRead
from fairlead.sessions.read_state import ReadState
from sessions.harness import CHILD, SESSION, CoreHarness

ANN = Identity("cred-ann", "ann", "ann", frozenset({"admin"}))
BOB = Identity("cred-bob", "bob", "bob", frozenset({"view"}))


def nobody(session: SessionId) -> frozenset[Identity]:
    return frozenset()


async def test_it_only_grows_and_is_each_ones_own(rig: CoreHarness) -> None:
    told: list[tuple[SessionId, What]] = []
    book = ReadState(rig.store.documents, lambda session, what: told.append((session, what)), nobody)
    mark, read = book.performers()[MarkRead], book.performers()[GetReadState]
    await asyncio.gather(mark(ANN, MarkRead(SESSION, 3)), mark(BOB, MarkRead(SESSION, 1)))
    await mark(ANN, MarkRead(SESSION, 2))
    assert (await read(ANN, GetReadState((SESSION, CHILD)))).turns == {SESSION: 3}
    assert (await read(BOB, GetReadState((SESSION,)))).turns == {SESSION: 1}
    assert told == [(SESSION, "read")] * 2


async def test_it_goes_with_the_session(rig: CoreHarness) -> None:
    await rig.open()
    book = ReadState(rig.store.documents, lambda session, what: None, nobody)
    await book.performers()[MarkRead](ANN, MarkRead(SESSION, 3))
    await rig.do(Delete(session=SESSION))
    assert await rig.store.documents.get(SPACE, SESSION) is None


async def test_what_one_device_of_a_user_was_shown_is_read_on_all_of_theirs(rig: CoreHarness) -> None:
    phone = Identity("cred-phone", ANN.user, "phone", ANN.scopes)
    book = ReadState(rig.store.documents, lambda session, what: None, lambda session: {phone})
    book.mark_read(SESSION, {phone}, 2)
    await book.close()
    read = book.performers()[GetReadState]
    assert await read(ANN, GetReadState((SESSION,))) == TurnsRead({SESSION: 2}, frozenset({SESSION}))
    assert await read(BOB, GetReadState((SESSION,))) == TurnsRead({})
