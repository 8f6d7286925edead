"""Files attached to a prompt: how a client names them, how the agent receives them, how a row shows them. Pure.

The agent gets each file that it can view as a separate block, and one line with name and path for every file. That
list is the message's last text block: rows get their files from it, and do not show it.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead.clients.claudecodeui.rest.project_fields import Fields
from fairlead.model.content import Content, ImageBlock, OtherBlock, TextBlock, plain_text
from fairlead.uploads.api import ClaimedUpload, Upload

OPTIONS: Final = ("attachments", "images", "files")
MOST_TEXT: Final = 1000
"""Maximum characters of a path or a name that a client sends; Fairlead's own are shorter."""

_BEGIN: Final = "\n\n<attached-files>\n"
_END: Final = "\n</attached-files>"
_PICTURE: Final = re.compile(r"\.(gif|jpe?g|png|svg|webp)$", re.IGNORECASE)

_encoder: Final = msgspec.json.Encoder()


def named_uploads(options: Mapping[str, Any]) -> tuple[Upload, ...]:
    """The files that the client names in any of the options, each path once, without malformed items."""
    found: dict[str, Upload] = {}
    for option in OPTIONS:
        given = options.get(option)
        for item in given if isinstance(given, list) else ():
            upload = _one(item)
            if upload is not None:
                found.setdefault(upload.path, upload)
    return tuple(found.values())


def _one(item: Any) -> Upload | None:
    fields = {"path": item} if isinstance(item, str) else item
    if not isinstance(fields, dict) or not _text(fields.get("path")).strip():
        return None
    size = fields.get("size")
    whole = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 53
    return Upload(fields["path"], _text(fields.get("name")), _text(fields.get("mimeType")), size if whole else None)


def _text(given: Any) -> str:
    return given if isinstance(given, str) and len(given) <= MOST_TEXT else ""


def fields(upload: Upload) -> Fields:
    values = {"path": upload.path, "name": upload.name, "mimeType": upload.mime, "size": upload.size}
    return {name: value for name, value in values.items() if value not in ("", None)}


def message_blocks(text: str, taken: tuple[ClaimedUpload, ...]) -> tuple[Content, ...]:
    """The message for the agent. An empty text is left out if there are files."""
    if not taken:
        return (TextBlock(text),)
    blocks = [each.block for each in taken if each.block is not None]
    texts = [TextBlock(text)] if text.strip() else []
    lines = "\n".join(_encoder.encode(_line(each)).decode() for each in taken)
    return (*blocks, *texts, TextBlock(f"{_BEGIN}{lines}{_END}"))


def _line(taken: ClaimedUpload) -> Fields:
    """One line of the file list. `shown`: the image is in the message itself."""
    return {**fields(taken.upload), **({"shown": True} if isinstance(taken.block, ImageBlock) else {})}


def split_message(blocks: tuple[Content, ...]) -> tuple[str, list[Fields], list[Fields]]:
    """A message's text, its images and its other files. The app replaces its provisional row by a row with equal
    numbers of images and files, which it distinguishes by type and name: they are sorted here in the same way."""
    lines = _file_list(blocks[-1]) if blocks else None
    text = plain_text(blocks if lines is None else blocks[:-1])
    pictures = [picture for block in blocks if (picture := _picture(block)) is not None]
    if lines is None:
        return text, pictures, [document for block in blocks if (document := _document(block)) is not None]
    images: list[Fields] = []
    files: list[Fields] = []
    for line in lines:
        inside = line.pop("shown", False) and pictures
        if inside or _is_picture(line):
            images.append({**line, **(pictures.pop(0) if inside else {})})
        else:
            files.append(line)
    return text, [*images, *pictures], files


def _file_list(block: Content) -> list[Fields] | None:
    """The file list in this block; None if the block is not one of Fairlead's lists."""
    if not isinstance(block, TextBlock) or not block.text.startswith(_BEGIN) or not block.text.endswith(_END):
        return None
    try:
        lines = [msgspec.json.decode(line) for line in block.text[len(_BEGIN) : -len(_END)].split("\n")]
    except msgspec.DecodeError:
        return None
    return lines if all(isinstance(line, dict) and isinstance(line.get("path"), str) for line in lines) else None


def _is_picture(line: Fields) -> bool:
    kind = line.get("mimeType")
    return (isinstance(kind, str) and kind.startswith("image/")) or bool(_PICTURE.search(line["path"]))


def _picture(block: Content) -> Fields | None:
    if not isinstance(block, ImageBlock) or block.source.get("type") != "base64":
        return None
    return {"data": f"data:{block.source.get('media_type')};base64,{block.source.get('data')}"}


def _document(block: Content) -> Fields | None:
    """The fields of a document block; without a file list there is no file to fetch, only a name."""
    if not isinstance(block, OtherBlock) or not isinstance(block.data, dict) or block.data.get("type") != "document":
        return None
    source = block.data.get("source")
    kind = source.get("media_type") if isinstance(source, dict) else None
    return {"name": str(block.data.get("title") or "document"), **({"mimeType": kind} if kind else {})}
