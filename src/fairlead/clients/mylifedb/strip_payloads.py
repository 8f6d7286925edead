"""Payload stripping for clients of the later form: the contents of files that a tool read are left out of its result.

The transcript stores the content of `toolUseResult` in a user record twice (once for the model, once for people), and
a page of such records is mostly file contents. The client shows the path and the number of lines.
"""

from typing import Any

from fairlead.clients.mylifedb.records import encode, value_of


def stripped(data: bytes) -> bytes:
    """Return the record without a file's text or an image's bytes; unchanged if it has neither."""
    # A cheap check first: most records hold no such result and need no decoding.
    if b"toolUseResult" not in data:
        return data
    record = value_of(data)
    result = record.get("toolUseResult") if isinstance(record, dict) else None
    if record is None or record.get("type") != "user" or not isinstance(result, dict) or not _strip_file(result):
        return data
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            block["content"] = ""
    return encode(record)


def _strip_file(result: dict[str, Any]) -> bool:
    file = result.get("file")
    if not isinstance(file, dict):
        return False
    if result.get("type") == "text":
        content = file.pop("content", None)
        if isinstance(content, str):
            lines = content.count("\n") + 1
            file.setdefault("numLines", lines)
            file.setdefault("totalLines", lines)
        return True
    if result.get("type") == "image":
        file.pop("base64", None)
        return True
    return False
