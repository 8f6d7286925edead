"""Content blocks of messages, onto which the blocks of every agent map."""

from typing import Any

import msgspec


class Block(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Base of all blocks."""


class TextBlock(Block, frozen=True, tag="text"):
    text: str


class ThinkingBlock(Block, frozen=True, tag="thinking"):
    thinking: str
    signature: str = ""


class ImageBlock(Block, frozen=True, tag="image"):
    source: dict[str, Any]


class ToolUseBlock(Block, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class ToolResultBlock(Block, frozen=True, tag="tool_result"):
    tool_use_id: str
    content: Any = None
    is_error: bool = False


class OtherBlock(Block, frozen=True, tag="other"):
    """A block of unknown kind, or with fields of the wrong type: stored unchanged."""

    data: Any


class MessageSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent that sent a message or started a session. `session` is the agent's own session; empty: the agent is
    outside the gateway and its session is unknown. `depth` counts the agents since the last person, from 1."""

    session: str = ""
    depth: int = 1


Content = TextBlock | ThinkingBlock | ImageBlock | ToolUseBlock | ToolResultBlock | OtherBlock

_KNOWN = TextBlock | ThinkingBlock | ImageBlock | ToolUseBlock | ToolResultBlock


def content_block(data: Any) -> Content:
    """Convert one decoded JSON block; nothing is rejected, an unexpected block becomes `OtherBlock`."""
    try:
        known: Content = msgspec.convert(data, _KNOWN)
    except msgspec.ValidationError:
        return OtherBlock(data)
    return known


def content_blocks(data: Any) -> tuple[Content, ...]:
    """Convert a message's `content`: a plain string, a list of blocks, or any other value."""
    if isinstance(data, str):
        return (TextBlock(data),)
    if isinstance(data, list):
        return tuple(content_block(item) for item in data)
    return () if data is None else (OtherBlock(data),)


def plain_text(blocks: tuple[Content, ...]) -> str:
    """The text of a message: its text blocks joined."""
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def to_wire(blocks: tuple[Content, ...]) -> Any:
    """Content in the agent's format: a single text as a plain string, else a list of blocks."""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    return [block.data if isinstance(block, OtherBlock) else msgspec.to_builtins(block) for block in blocks]
