"""Parts for programs on Claude's Agent SDK (docs/how-to/agent-sdk.md): a transport to sessions of a gateway, and
a store for its transcripts.

The SDK itself (`claude_agent_sdk`) is not a dependency: the program that uses these parts has it.
"""

from fairlead.sdk.session_store import FairleadSessionStore
from fairlead.sdk.transport import FairleadTransport

__all__ = ["FairleadSessionStore", "FairleadTransport"]
