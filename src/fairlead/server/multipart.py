"""Forms with files, read as they arrive: each piece goes to the store at once, and a limit exceeded ends the upload.

Rule: only the head of the current part is held in memory. The parser is python-multipart's; this module decides which
parts are files and how large they may be.
"""

from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, TooLarge
from fairlead.model.web.requests import Head
from fairlead.server.asgi import Receive
from fairlead.server.dispatch import Dispatcher
from fairlead.server.requests import body_pieces, check_length
from fairlead.system.clock import Clock, within
from fairlead.uploads.api import AcceptForm, FileForm, Intake, OpenIntake, Upload

PART_HEAD: Final = 8 << 10
"""Bytes of a part's head; browsers send a few hundred, somewhat more with a long name."""
NO_FORM: Final = "Send the files as a form: multipart/form-data."
CUT_OFF: Final = "The form is incomplete: its end is missing."


class FormBody:
    """The body of one request. `whole`: it was read to its end; otherwise the connection cannot be reused."""

    def __init__(self, head: Head, receive: Receive, dispatcher: Dispatcher, clock: Clock, seconds: float) -> None:
        self._head = head
        self._receive = receive
        self._dispatcher = dispatcher
        self._clock = clock
        self._seconds = seconds
        self.whole = False

    async def accept(self, who: Identity, action: AcceptForm) -> tuple[Upload, ...]:
        form = action.form
        boundary = _boundary(self._head)
        # Besides the files, room for the heads of as many parts and of one part that is not a file.
        most = form.files * (form.file_bytes + PART_HEAD) + PART_HEAD
        check_length(self._head, "form", most)
        intake: Intake = await self._dispatcher.dispatch(who, OpenIntake())
        try:
            parts = FileParts(boundary, form, intake)
            try:
                await within(self._clock, self._seconds, self._feed(parts, most))
            except TimeoutError:
                raise BadRequest("The form did not arrive in time: send fewer or smaller files.") from None
            parts.check()
            return await intake.keep()
        finally:
            intake.drop()

    async def _feed(self, parts: "FileParts", most: int) -> None:
        async for data, last in body_pieces("form", most, self._receive):
            self.whole = last
            if data:
                parts.write(data)


class FileParts:
    """The parts of a form: parts of the field with the files go to the intake, all others are dropped."""

    def __init__(self, boundary: bytes, form: FileForm, intake: Intake) -> None:
        self._form = form
        self._intake = intake
        self._head = 0
        self._headers: list[tuple[bytearray, bytearray]] = []
        self._size: int | None = None
        self._files = 0
        self._ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begun,
                "on_header_begin": self._header,
                "on_header_field": self._field,
                "on_header_value": self._value,
                "on_headers_finished": self._opened,
                "on_part_data": self._data,
                "on_end": self._end,
            },
        )

    def write(self, data: bytes) -> None:
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise BadRequest(f"The form is malformed: {error}.") from None

    def check(self) -> None:
        """Raise BadRequest unless the form is complete and has at least one file."""
        if not self._ended:
            raise BadRequest(CUT_OFF)
        if not self._files:
            raise BadRequest(f"The form has no file: put it into the field {self._form.field}.")

    # --- callbacks of the parser

    def _begun(self) -> None:
        self._head = 0
        self._headers = []
        self._size = None

    def _header(self) -> None:
        self._headers.append((bytearray(), bytearray()))

    def _field(self, data: bytes, start: int, end: int) -> None:
        self._headers[-1][0].extend(self._counted(data, start, end))

    def _value(self, data: bytes, start: int, end: int) -> None:
        self._headers[-1][1].extend(self._counted(data, start, end))

    def _counted(self, data: bytes, start: int, end: int) -> bytes:
        self._head += end - start
        if self._head > PART_HEAD:
            raise TooLarge("head of a part of the form", self._head, PART_HEAD)
        return data[start:end]

    def _opened(self) -> None:
        head = {bytes(name).lower(): bytes(value) for name, value in self._headers}
        _, options = parse_options_header(head.get(b"content-disposition"))
        name = options.get(b"filename", b"")
        if options.get(b"name", b"").decode("utf-8", "replace") != self._form.field or not name:
            return
        self._files += 1
        if self._files > self._form.files:
            raise BadRequest(f"A form may have at most {self._form.files} files.", limit=self._form.files)
        kind, _ = parse_options_header(head.get(b"content-type"))
        self._intake.begin(_unescaped(name), kind.decode("latin-1"))
        self._size = 0

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._size is None:
            return
        self._size += end - start
        if self._size > self._form.file_bytes:
            raise TooLarge("file", self._size, self._form.file_bytes)
        self._intake.write(data[start:end])

    def _end(self) -> None:
        self._ended = True


def _boundary(head: Head) -> bytes:
    kind, options = parse_options_header(head.first("content-type"))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not 0 < len(boundary) <= 70:
        raise BadRequest(NO_FORM)
    return boundary


def _unescaped(name: bytes) -> str:
    """Decode a file name as browsers encode it: in UTF-8, with three characters escaped."""
    text = name.decode("utf-8", "replace")
    return text.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
