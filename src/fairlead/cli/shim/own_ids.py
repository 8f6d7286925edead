"""The ids that the shim gives to prompts without one, and how the caller does not see them. Pure.

The log needs the id of every prompt. Newer CLIs report on prompts that have one: extra records, and extra fields in
others. A caller that sent no id would not get them without the shim. Seen on 2.1.325.
"""

import re
from typing import Final

from fairlead.model.formats.bounded_tables import keep_newest

MOST_IDS: Final = 1000
_LIFECYCLE: Final = re.compile(rb'"type":"command_lifecycle".*"command_uuid":"([0-9a-f-]{36})"')
_ONE: Final = re.compile(rb',"user_message_uuid":"([0-9a-f-]{36})"')
_ALL: Final = re.compile(rb',"user_message_uuids":\[([^\]]*)\]')
_OWED: Final = b',"owed_rows":[]'
_MARKS: Final = (b'"user_message_uuid', b'"command_lifecycle"')
"""In a text of the line these would have a backslash before the quote."""


class OwnIds:
    def __init__(self) -> None:
        self._ids: dict[bytes, None] = {}

    def add(self, uuid: str) -> None:
        keep_newest(self._ids, uuid.encode(), None, MOST_IDS)

    def hide(self, line: bytes) -> bytes:
        """The line as the CLI would have written it for a prompt without an id; empty if it would not have written
        it."""
        if not self._ids or not any(mark in line for mark in _MARKS):
            return line
        lifecycle = _LIFECYCLE.search(line)
        if lifecycle is not None:
            return b"" if lifecycle[1] in self._ids else line
        hidden = _ALL.sub(self._others, _ONE.sub(lambda found: b"" if found[1] in self._ids else found[0], line))
        return hidden if hidden == line else hidden.replace(_OWED, b"", 1)

    def _others(self, found: "re.Match[bytes]") -> bytes:
        names = [name for name in found[1].split(b",") if name.strip(b'" ') not in self._ids]
        return b',"user_message_uuids":[' + b",".join(names) + b"]" if names else b""
