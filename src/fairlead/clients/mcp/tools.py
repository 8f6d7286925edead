"""A tool of the MCP server: its name, its arguments as a type, and the steps that answer a call. Pure."""

from collections.abc import Callable, Generator
from typing import Annotated, Any

import msgspec

from fairlead.model.web.requests import Step
from fairlead.model.web.routes import Request

ToolSteps = Generator[Step, Any, str]
"""The steps of a call, and its answer as text."""

SessionArgument = Annotated[str, msgspec.Meta(description="The id of the session.", min_length=36, max_length=36)]
Cursor = Annotated[str, msgspec.Meta(description="The cursor at the end of the previous page.", max_length=200)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the arguments of a tool. Its schema comes from the fields."""


class McpTool(msgspec.Struct, frozen=True, kw_only=True):
    """`reads`: it changes nothing."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Request, Any], ToolSteps]
    reads: bool = True


def tool_definition(tool: McpTool) -> dict[str, Any]:
    """The tool as `tools/list` shows it."""
    annotations = {"title": tool.title, "readOnlyHint": tool.reads, "openWorldHint": False}
    if not tool.reads:
        annotations["destructiveHint"] = False
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": _schema(tool.arguments),
        "annotations": annotations,
    }


def _schema(kind: type[Arguments]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    schema = components[kind.__name__]
    return {name: schema[name] for name in ("type", "properties", "required", "additionalProperties") if name in schema}


def clip(text: str, most: int) -> str:
    """A text of at most `most` characters, and a note if it was longer."""
    return text if len(text) <= most else f"{text[:most]} [... {len(text) - most} more characters]"


def one_line(text: str, most: int) -> str:
    """A text as a part of one line of printable characters."""
    plain = "".join(character if character.isprintable() else " " for character in text[: 4 * most])
    line = " ".join(plain.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
