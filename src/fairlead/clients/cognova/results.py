"""A tool's result as text: a text as it is, the texts of blocks joined, anything else as JSON. Pure."""

from typing import Any

import msgspec


def result_text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)]
        if texts or not content:
            return "".join(texts)
    return msgspec.json.encode(content).decode()
