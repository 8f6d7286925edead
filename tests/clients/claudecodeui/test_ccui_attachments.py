"""Which files go with a prompt, how the agent receives them, and how the prompt's row shows them.

tests/golden/claudecodeui-attachments has a case for each rule of the filter: `options` of chat.send, the user's folder,
and the accepted files.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.clients.claudecodeui.chat.attachments import fields, message_blocks, named_uploads, split_message
from fairlead.clients.claudecodeui.chat.messages import ChatError, SendMessage, read_prompt
from fairlead.model.content import ImageBlock, OtherBlock, TextBlock
from fairlead.uploads.api import (
    BLOCK_BYTES,
    IMAGE_BYTES,
    PDF_BYTES,
    TEXT_BYTES,
    ClaimedUpload,
    Upload,
    block_of,
    owned_uploads,
)

CASES = Path(__file__).parents[2] / "golden" / "claudecodeui-attachments"
SESSION = "11111111-1111-4111-8111-111111111111"
STORE = "/data/uploads/ann"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1"


def sent(options: Any) -> SendMessage:
    message = {"type": "chat.send", "sessionId": SESSION, "content": "look", "options": options}
    return read_prompt(message)


@pytest.mark.parametrize("case", sorted(path.stem for path in CASES.iterdir()))
def test_the_filter_accepts_exactly_the_files_of_the_case(case: str) -> None:
    known = json.loads((CASES / f"{case}.json").read_text())
    accepted = owned_uploads(known["folder"], sent(known["options"]).uploads)
    assert [fields(upload) for upload in accepted] == known["accepted"]


def test_a_message_has_at_most_ten_files() -> None:
    names = [f"{number:032x}" for number in range(11)]
    assert len(sent({"attachments": names[:10]}).uploads) == 10
    with pytest.raises(ChatError, match="At most 10 files"):
        sent({"attachments": names[:6], "files": names[6:]})


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda deeper: st.lists(deeper)))
def test_no_path_that_a_client_names_is_outside_the_store(given: Any) -> None:
    for upload in owned_uploads(
        STORE, named_uploads({"attachments": given, "images": [given], "files": [{"path": given}]})
    ):
        assert upload.path.startswith(f"{STORE}/") and "/" not in upload.path[len(STORE) + 1 :]


# --- blocks


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xc0\0\x11\x08\0\1\0\1", "image/jpeg"),
        (b"GIF89a\1\0\1\0", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8X".ljust(30, b"\0"), "image/webp"),
    ],
)
def test_an_image_block_is_recognized_by_its_bytes(data: bytes, kind: str) -> None:
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    assert block_of(data, "looks-like.txt") == ImageBlock(source)


def test_pdfs_and_texts_are_documents_with_their_name() -> None:
    pdf = block_of(b"%PDF-1.7 \xff", "plan.pdf")
    assert isinstance(pdf, OtherBlock)
    assert pdf.data["source"]["media_type"] == "application/pdf" and pdf.data["title"] == "plan.pdf"
    text = block_of("Grüße".encode(), "notes.md")
    assert isinstance(text, OtherBlock)
    source = {"type": "text", "media_type": "text/plain", "data": "Grüße"}
    assert text.data == {"type": "document", "source": source, "title": "notes.md"}


@pytest.mark.parametrize(
    "data", [b"", b" \n", b"PK\x03\x04\0\0", b"\xff\xfe\xfd", b"text\0text", PNG[:-1], b"RIFF\x10\0\0\0WAVEfmt "]
)
def test_other_data_makes_no_block(data: bytes) -> None:
    assert block_of(data, "x.png") is None


@pytest.mark.parametrize(("begin", "limit"), [(PNG, IMAGE_BYTES), (b"%PDF-", PDF_BYTES), (b"words", TEXT_BYTES)])
def test_data_over_the_size_limit_makes_no_block(begin: bytes, limit: int) -> None:
    assert block_of(begin.ljust(limit, b"x"), "x") is not None
    assert block_of(begin.ljust(limit + 1, b"x"), "x") is None


def test_the_limits_fit_those_of_the_api() -> None:
    assert len(base64.b64encode(bytes(IMAGE_BYTES))) <= 5 << 20
    assert len(base64.b64encode(bytes(BLOCK_BYTES))) < 32_000_000


# --- messages and rows


def taken(name: str, data: bytes, mime: str = "", end: str = "") -> ClaimedUpload:
    upload = Upload(f"{STORE}/{len(name):032x}{end}", name, mime, len(data))
    return ClaimedUpload(upload, block_of(data, name))


def test_a_prompt_without_files_is_its_text() -> None:
    assert message_blocks("", ()) == (TextBlock(""),)
    assert message_blocks("hello", ()) == (TextBlock("hello"),)


def test_the_agent_gets_blocks_the_text_and_a_line_for_every_file() -> None:
    given = (taken("a.png", PNG, "image/png", ".png"), taken("an archive.zip", b"PK\0", end=".zip"))
    picture, words, listed = message_blocks("what is this?", given)
    assert isinstance(picture, ImageBlock) and words == TextBlock("what is this?")
    assert isinstance(listed, TextBlock)
    first, *lines, last = listed.text.strip().split("\n")
    assert (first, last) == ("<attached-files>", "</attached-files>")
    assert [json.loads(line)["path"] for line in lines] == [each.upload.path for each in given]


def test_files_without_a_prompt_add_no_empty_text_block() -> None:
    assert [type(block) for block in message_blocks("  ", (taken("a.png", PNG),))] == [ImageBlock, TextBlock]


def test_a_row_has_the_text_the_images_and_the_files() -> None:
    large = ClaimedUpload(Upload(f"{STORE}/{1:032x}.png", "large.png", "image/png", 9_000_000))
    drawn = taken("drawn.svg", b"<svg/>", "image/svg+xml", ".svg")
    photo, archive = taken("photo", PNG, "", ""), taken("archive.zip", b"PK\0", "application/zip", ".zip")
    text, images, files = split_message(message_blocks("look", (large, archive, photo, drawn)))
    assert text == "look"
    data = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    expected = [fields(large.upload), {**fields(photo.upload), "data": data}, fields(drawn.upload)]
    assert images == expected, "as the app sorts them, the picture itself where the message has it"
    assert files == [fields(archive.upload)]


@given(st.text(), st.text(min_size=1).filter(lambda name: name.strip() != ""), st.binary(max_size=50))
def test_a_sent_message_is_shown_unchanged(text: str, name: str, data: bytes) -> None:
    attached = taken(name, data)
    words, images, files = split_message(message_blocks(text, (attached,)))
    assert words == (text if text.strip() else "")
    assert [{key: value for key, value in item.items() if key != "data"} for item in (*images, *files)] == [
        fields(attached.upload)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<attached-files>\n{}\n</attached-files>",
        "\n\n<attached-files>\nno json\n</attached-files>",
        "\n\n<attached-files>\n{}\n</attached-files>",
        "\n\n<attached-files>\n7\n</attached-files>",
        "\n\n<attached-files>\n</attached-files>",
        '\n\n<attached-files>\n{"path":7}\n</attached-files>',
    ],
)
def test_a_text_that_only_looks_like_the_list_is_a_text(text: str) -> None:
    assert split_message((TextBlock(text),)) == (text, [], [])


def test_documents_that_were_not_uploaded_here_have_names() -> None:
    pdf, odd = block_of(b"%PDF-", "plan.pdf"), OtherBlock({"type": "document", "source": 7})
    assert pdf is not None
    _, images, files = split_message((pdf, odd, OtherBlock({"type": "else"}), OtherBlock(7), TextBlock("read it")))
    assert (images, files) == ([], [{"name": "plan.pdf", "mimeType": "application/pdf"}, {"name": "document"}])
