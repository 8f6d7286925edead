"""What each credential was shown: it only grows, is each one's own, and goes with the session."""

import asyncio

from fairlead.model.commands import Delete
from fairlead.model.ids import SessionId
from fairlead.model.news import What
from fairlead.model.reading import SPACE, MarkShown, ReadShown
from fairlead.sessions.shown import ShownBook
from sessions.rig import ANN, BOB, CHILD, SESSION, Rig


async def test_it_only_grows_and_is_each_ones_own(rig: Rig) -> None:
    told: list[tuple[SessionId, What]] = []
    book = ShownBook(rig.store.documents, lambda session, what: told.append((session, what)))
    mark, read = book.performers()[MarkShown], book.performers()[ReadShown]
    await asyncio.gather(mark(ANN, MarkShown(SESSION, 3)), mark(BOB, MarkShown(SESSION, 1)))
    await mark(ANN, MarkShown(SESSION, 2))
    assert (await read(ANN, ReadShown((SESSION, CHILD)))).turns == {SESSION: 3}
    assert (await read(BOB, ReadShown((SESSION,)))).turns == {SESSION: 1}
    assert told == [(SESSION, "read")] * 2


async def test_it_goes_with_the_session(rig: Rig) -> None:
    await rig.open()
    book = ShownBook(rig.store.documents, lambda session, what: None)
    await book.performers()[MarkShown](ANN, MarkShown(SESSION, 3))
    await rig.do(Delete(session=SESSION))
    assert await rig.store.documents.get(SPACE, SESSION) is None
