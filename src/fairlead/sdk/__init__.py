"""Parts for programs on Claude's Agent SDK (docs/how-to/agent-sdk.md): a transport to sessions of a gateway.

The SDK itself (`claude_agent_sdk`) is not a dependency: the program that uses these parts has it.
"""

from fairlead.sdk.transport import FairleadTransport

__all__ = ["FairleadTransport"]
