"""Multipart forms in pieces of any size: the files and limits are the same, and nothing is kept of a malformed form."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import BadRequest, FairleadError, TooLarge
from fairlead.server.multipart import PART_HEAD, FileParts
from fairlead.uploads.api import FileForm, Upload

BOUNDARY = b"----cut"
FORM = FileForm("files", files=3, file_bytes=100)


class MemoryFiles:
    """Collects all files in memory."""

    def __init__(self) -> None:
        self.files: list[tuple[str, str, bytes]] = []

    def begin(self, name: str, mime: str) -> None:
        self.files.append((name, mime, b""))

    def write(self, data: bytes) -> None:
        name, mime, before = self.files[-1]
        self.files[-1] = (name, mime, before + data)

    async def keep(self) -> tuple[Upload, ...]:
        return tuple(Upload(name) for name, _, _ in self.files)

    def drop(self) -> None:
        self.files.clear()


def part(data: bytes, name: bytes = b'"files"', file: bytes = b'"a.txt"', kind: bytes = b"text/plain") -> bytes:
    disposition = b"Content-Disposition: form-data; name=" + name + (b"; filename=" + file if file else b"")
    return b"--" + BOUNDARY + b"\r\n" + disposition + b"\r\nContent-Type: " + kind + b"\r\n\r\n" + data + b"\r\n"


def whole(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--" + BOUNDARY + b"--\r\n"


def read(body: bytes, step: int = 0, form: FileForm = FORM) -> list[tuple[str, str, bytes]]:
    collected = MemoryFiles()
    parts = FileParts(BOUNDARY, form, collected)
    step = step or len(body) or 1
    for place in range(0, len(body), step):
        parts.write(body[place : place + step])
    parts.check()
    return collected.files


BODY = whole(
    part(b"one\r\n----cu", file='"ä \\" %22.txt"'.encode()),
    part(b"a word", name=b'"more"', file=b""),
    part(b"a file of another field", name=b'"other"'),
    part(b"", kind=b"image/png; charset=x"),
)
FOUND = [('ä " ".txt', "text/plain", b"one\r\n----cu"), ("a.txt", "image/png", b"")]


def test_files_of_the_field_are_found_and_other_parts_are_skipped() -> None:
    assert read(BODY) == FOUND


@given(st.integers(1, len(BODY)))
def test_result_does_not_depend_on_how_the_body_is_split(step: int) -> None:
    assert read(BODY, step) == FOUND


@given(st.binary(max_size=100).filter(lambda data: BOUNDARY not in data), st.integers(1, 40))
def test_every_byte_arrives(data: bytes, step: int) -> None:
    ((_, _, came),) = read(whole(part(data)), step)
    assert came == data


@pytest.mark.parametrize("step", [0, 1])
def test_a_file_may_be_as_large_as_the_limit_and_no_larger(step: int) -> None:
    assert len(read(whole(part(bytes(100))), step)) == 1
    with pytest.raises(TooLarge) as error:
        read(whole(part(bytes(101))), step)
    assert error.value.data["limit"] == 100


def test_a_file_that_is_too_large_is_noticed_before_its_end() -> None:
    parts = FileParts(BOUNDARY, FORM, MemoryFiles())
    with pytest.raises(TooLarge):
        parts.write(part(bytes(200))[:-50])


def test_number_of_files_is_limited_by_the_form() -> None:
    assert len(read(whole(*[part(b"x")] * 3))) == 3
    with pytest.raises(BadRequest, match="at most 3 files"):
        read(whole(*[part(b"x")] * 4))


@pytest.mark.parametrize("step", [0, 1, 100])
def test_the_head_of_a_part_is_bounded(step: int) -> None:
    with pytest.raises(FairleadError):
        read(whole(part(b"x", file=b'"' + b"x" * PART_HEAD + b'"')), step)
    with pytest.raises(FairleadError):
        read(b"--" + BOUNDARY + b"\r\n" + b"x: y\r\n" * PART_HEAD, step)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no form",
        whole(),
        whole(part(b"x", file=b"")),
        whole(part(b"x", file=b'""')),
        whole(part(b"x", name=b'"other"')),
        part(b"cut off in the middle")[:-10],
        part(b"no end"),
        BODY[:-4],
        BODY.replace(b"Content-Disposition", b"Content Disposition"),
        b"--" + BOUNDARY + b"\r\n\r\nno head\r\n--" + BOUNDARY + b"--\r\n",
    ],
)
def test_incomplete_form_or_form_without_a_file_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read(body)


@given(st.binary(max_size=300))
def test_any_body_gives_files_or_a_fairlead_error(body: bytes) -> None:
    tries: list[Callable[[], object]] = [lambda: read(body), lambda: read(b"--" + BOUNDARY + b"\r\n" + body, 7)]
    for attempt in tries:
        with contextlib.suppress(FairleadError):
            attempt()
