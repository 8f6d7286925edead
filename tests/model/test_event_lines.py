"""An event line, and the entry that it came from."""

import pytest

from fairlead.model import events as ev
from fairlead.model.ids import EventId, MessageId, SessionId
from fairlead.model.store import Entry, entry_of_line, event_line
from fairlead_testing.replay import SESSION, log_of


def test_the_entry_of_a_line() -> None:
    events: list[ev.Event] = [
        # Its own field `seq` is not that of the entry.
        ev.SessionForked(id=EventId("e"), parent=SessionId("p"), seq=77),
        ev.Text(id=EventId("e"), message=MessageId("m"), block=0, text='ü "seq":5'),
    ]
    for entry in log_of(events).entries:
        read = entry_of_line(event_line(SESSION, entry))
        assert read == Entry(entry.seq, entry.prev, entry.at, entry.kind, entry.event)
        assert ev.decode(read.event) == ev.decode(entry.event)


@pytest.mark.parametrize("line", [b"", b"{}", b'{"prev":1,"seq":2,"session":"s","type":"text","at":1}'])
def test_anything_else_is_no_event_line(line: bytes) -> None:
    with pytest.raises(ValueError, match="event line"):
        entry_of_line(line)
