"""Snapshots of a session and its chat: the fold of all its actions, kept as a projection. Pure.

A finished turn is a row of the projection, under its id; the open turn and the rest of the state are the reducer's
memory. Both come from `translate`, which also makes the actions that clients receive.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.clients.ahp.channels import PROVIDER, chat_uri, file_uri, session_uri
from fairlead.clients.ahp.context import ARCHIVED, DEFAULTS, IDLE, READ, Context
from fairlead.clients.ahp.folding import BEGUN, fold_chat, fold_session
from fairlead.clients.ahp.translate import translate_entry
from fairlead.clients.ahp.wire import Fields
from fairlead.model import events as ev
from fairlead.model.formats.numbered_frames import FRAMES
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.views import Made, MemoryReducer, NewRow, ReducerProjection

NAME: Final = "ahp.1"
UNTITLED: Final = "New session"


def server_seq(at: int, slot: int = FRAMES - 1) -> int:
    """The number of an entry's action; without a slot, a number after all of them. Times grow strictly in a log, and
    roughly over all logs: AHP counts over the whole host."""
    return at * FRAMES + min(slot, FRAMES - 1)


def time_of(number: int) -> int:
    """The time of the entry of which this is a number, in milliseconds."""
    return number // FRAMES


class AhpMemory(msgspec.Struct):
    """`seq` and `at`: of the last entry that was reduced. `chat` and `state`: of the chat and of the session, without
    what never changes."""

    session: str
    seq: int = 0
    at: int = 0
    created: int = 0
    cwd: str = ""
    context: Context = msgspec.field(default_factory=Context)
    chat: Fields = msgspec.field(default_factory=lambda: {"status": IDLE})
    state: Fields = msgspec.field(default_factory=dict)


read_memory: Final = msgspec.msgpack.Decoder(AhpMemory).decode


class AhpReducer(MemoryReducer[AhpMemory]):
    """Implements `model.views.Reducer`."""

    def __init__(self, session: SessionId) -> None:
        config = {"values": dict(DEFAULTS)}
        chats = [{"title": UNTITLED, "status": IDLE}]
        super().__init__(AhpMemory(session, state={"title": UNTITLED, "chats": chats, "config": config}))
        self._session = session

    def step(self, entry: Entry) -> Sequence[Made]:
        memory = self._memory
        memory.seq, memory.at = entry.seq, entry.at
        if entry.kind == "session.opened":
            opened = ev.decode(entry.event)
            assert isinstance(opened, ev.SessionOpened)
            memory.created, memory.cwd = entry.at, opened.cwd
        memory.context, sent = translate_entry(memory.context, self._session, entry)
        rows: list[Made] = []
        for one in sent:
            if not one.chat:
                fold_session(memory.state, one.action)
            elif (turn := fold_chat(memory.chat, one.action, one.since or entry.seq)) is not None:
                memory.chat["modifiedAt"] = iso_timestamp(entry.at)
                rows.append(NewRow(msgspec.json.encode(turn), turn["id"]))
        return rows


PROJECTION: Final = ReducerProjection(NAME, AhpReducer)


def chat_summary(memory: AhpMemory) -> Fields:
    created = iso_timestamp(memory.created)
    about = {"resource": chat_uri(memory.session), "origin": {"kind": "user"}, "modifiedAt": created}
    return {**about, **memory.state["chats"][0]}


def chat_snapshot(memory: AhpMemory, turns: Sequence[bytes], cursor: str) -> Fields:
    """The state of the chat with these finished turns. `cursor`: from which `fetchTurns` loads the earlier ones; empty:
    these are all."""
    state = {**chat_summary(memory), "modifiedAt": iso_timestamp(memory.created), **memory.chat}
    state.pop(BEGUN, None)
    state["turns"] = [msgspec.Raw(turn) for turn in turns]
    if cursor:
        state["turnsNextCursor"] = cursor
    return state


def session_snapshot(memory: AhpMemory, schema: Fields) -> Fields:
    """The state of the session, without its active clients. `schema`: of its configuration."""
    archived = ARCHIVED if memory.context.archived else 0
    return {
        "resource": session_uri(memory.session),
        "provider": PROVIDER,
        "status": memory.context.status | READ | archived,
        "workingDirectories": [file_uri(memory.cwd)] if memory.cwd else [],
        "lifecycle": "ready",
        "defaultChat": chat_uri(memory.session),
        **memory.state,
        "chats": [chat_summary(memory)],
        "config": {"schema": schema, **memory.state["config"]},
    }


def snapshot(channel: str, state: Fields, at: int) -> Fields:
    return {"resource": channel, "state": state, "fromSeq": server_seq(at)}
