"""Fetches the SDK of ACP (Agent Client Protocol), with which a test opens the socket `/acp` as a client.

`tools/acp-clients/package-lock.json` pins it and all its dependencies by hash. Standard library only.
"""

import sys

from tools.clis import attempt
from tools.npm_locked import Locked

ACP_CLIENTS = Locked("acp-clients", "the SDK of ACP", "15 MB")

if __name__ == "__main__":
    sys.exit(0 if attempt(ACP_CLIENTS.fetch) else 1)
