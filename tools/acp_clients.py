"""Fetches the ACP clients (Agent Client Protocol) that judge `fairlead acp` and `/acp`: acpx and the protocol's SDK.

`tools/acp-clients/package-lock.json` pins them and all their dependencies by hash. Standard library only.
"""

import sys

from tools.clis import attempt
from tools.npm_locked import Locked

ACP_CLIENTS = Locked("acp-clients", "clients of ACP", "45 MB")

if __name__ == "__main__":
    sys.exit(0 if attempt(ACP_CLIENTS.fetch) else 1)
