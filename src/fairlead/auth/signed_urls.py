"""Signed URLs: a link to one download, valid for a short time, for browser requests without headers. Pure.

The signature covers path, query, credential and expiry, and must be the last part of the query: nothing can be
appended to it. Scopes are looked up when it is used, so that a revoked credential's links are invalid too.
"""

import hashlib
import hmac
import re
from typing import Final

LIFETIME_MS: Final = 5 * 60 * 1000
_FORM: Final = re.compile(r"([0-9]{1,15})\.([A-Za-z0-9]{1,32})\.([0-9a-f]{64})")


def sign(key: bytes, path: str, query: str, credential: str, expires: int) -> str:
    """Return the URL: path, query and signature."""
    signature = f"{expires}.{credential}.{_mac(key, path, query, credential, expires)}"
    return f"{path}?{query}&sig={signature}" if query else f"{path}?sig={signature}"


def signer(key: bytes, path: str, query: str, now: int) -> str | None:
    """Return the credential that signed this URL, if the signature is valid."""
    before, mark, signature = query.rpartition("sig=")
    found = _FORM.fullmatch(signature)
    if not mark or found is None or (before and not before.endswith("&")):
        return None
    expires, credential, mac = int(found[1]), found[2], found[3]
    if not hmac.compare_digest(mac, _mac(key, path, before.removesuffix("&"), credential, expires)):
        return None
    # We never sign for longer than this, so a later expiry is rejected even if another party has the key.
    return credential if now < expires <= now + LIFETIME_MS else None


def _mac(key: bytes, path: str, query: str, credential: str, expires: int) -> str:
    # None of the parts can contain a line break, so no two requests share these bytes.
    return hmac.new(key, f"{expires}\n{credential}\n{path}\n{query}".encode(), hashlib.sha256).hexdigest()
