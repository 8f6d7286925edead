"""The log as lines: the stored events, one per line, each with its seq and session in front."""

from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, event_line


class JsonlRenderer:
    def __init__(self, session: SessionId) -> None:
        self._session = session

    def begin(self) -> bytes:
        return b""

    def entry(self, entry: Entry) -> bytes:
        return event_line(self._session, entry) + b"\n"

    def end(self) -> bytes:
        return b""
