"""An HTTP client for servers on this machine."""

from typing import Any

import httpx2

from patience import PATIENCE


def local_client(**options: Any) -> httpx2.AsyncClient:
    """A client without TLS: to load the machine's certificate authorities for each takes longer than most requests."""
    return httpx2.AsyncClient(**{"verify": False, "trust_env": False, "timeout": PATIENCE, **options})
