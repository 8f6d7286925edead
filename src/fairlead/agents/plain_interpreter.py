"""The parts of an interpreter that are the same for agents without transcripts. Pure."""

from typing import Generic, TypeVar

import msgspec

from fairlead.model.agents import Interpretation
from fairlead.model.ids import SessionId

State = TypeVar("State", bound=msgspec.Struct)


class PlainInterpreter(Generic[State]):
    """Its subclasses implement `model.agents.Interpreter`: their records come in order, and a turn ends with one."""

    def __init__(self, session: SessionId, state: State) -> None:
        self._session = session
        self._state = state

    @property
    def deferred_count(self) -> int:
        return 0

    @property
    def background_work(self) -> tuple[str, ...]:
        return ()

    def end_quiet_turn(self) -> Interpretation:
        return Interpretation()

    def flush_unresolved(self, cause: str) -> Interpretation:
        return Interpretation()

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def restore(self, data: bytes) -> None:
        self._state = msgspec.msgpack.decode(data, type=type(self._state))
