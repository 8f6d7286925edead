"""Parts for programs on Claude's Agent SDK (docs/how-to/agent-sdk.md): a transport to sessions of a gateway, and
a store for its transcripts.

The SDK itself (`claude_agent_sdk`) is not a dependency: the program that uses these parts has it. The names are loaded
when they are used: a gateway looks into every package when it starts, and needs none of their imports.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.sdk.session_store import FairleadSessionStore
    from fairlead.sdk.transport import FairleadTransport

__all__ = ["FairleadSessionStore", "FairleadTransport"]

_MODULES = {"FairleadSessionStore": "session_store", "FairleadTransport": "transport"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"fairlead.sdk.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
