"""The tables among the settings."""

from typing import Annotated, Literal

import msgspec


class McpConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An MCP server that sessions may request by name; only this setting determines what it runs."""

    type: Literal["stdio", "sse", "http"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""


class DoorConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An extra port, on which one client protocol owns the root path."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)]
    static: str = ""
    public_url: str = ""
    login: Literal["", "basic", "token"] = ""
    options: dict[str, str] = {}


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent that speaks the Agent Client Protocol. `env`: names of additional environment variables for it."""

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    env: tuple[str, ...] = ()


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A program that claudecodeui may start on a terminal by name; `{session}` in `resume` is the conversation."""

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    resume: tuple[str, ...] = ()
