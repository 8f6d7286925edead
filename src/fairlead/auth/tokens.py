"""The format of secrets and of their stored records. Pure: randomness is injected.

`fl_<id>_<secret>`: the id finds the record without a search, the secret has 256 bits. Only a hash is stored: a plain
SHA-256 is enough for a secret that cannot be guessed (a password would need a slow hash).
"""

import hashlib
import hmac
import re
from base64 import b32encode
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead.auth.api.credentials import CredentialKind, CredentialView
from fairlead.model.auth import SCOPES, Identity, Scope, display_name
from fairlead.model.errors import BadRequest

Random = Callable[[int], bytes]
"""Returns the given number of random bytes; `secrets.token_bytes` outside of tests."""

SECRET_BYTES: Final = 32
_ID_BYTES: Final = 5
_FORM: Final = re.compile(r"fl_([a-z2-7]{8})_[a-z2-7]{52}")


def encode_base32(data: bytes) -> str:
    """Encode bytes in base 32: a double click selects all of it, and URLs and shells need no quoting."""
    return b32encode(data).decode("ascii").rstrip("=").lower()


def mint(random: Random) -> tuple[str, str]:
    """Create a token; returns (id, token)."""
    name = encode_base32(random(_ID_BYTES))
    return name, f"fl_{name}_{encode_base32(random(SECRET_BYTES))}"


def parse_token_id(token: str) -> str | None:
    """Return the id in one of our tokens; None for a token in another format."""
    found = _FORM.fullmatch(token)
    return found[1] if found else None


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class CredentialRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A credential in the store. A revoked one stays: its id is not used again, and lists show when it was revoked.

    Not a subclass of `CredentialView`: the type checker must find a record that is sent to a client with its digest.
    """

    id: str
    kind: CredentialKind
    name: str
    user: str
    scopes: tuple[Scope, ...]
    digest: str
    created: int
    last_used: int = 0
    revoked: int = 0

    def matches(self, secret: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.digest, digest(secret))

    def view(self) -> CredentialView:
        return msgspec.convert(self, CredentialView, from_attributes=True)

    def identity(self) -> Identity:
        name = display_name(self.user, self.name)
        return Identity(credential=self.id, user=self.user, name=name, scopes=frozenset(self.scopes))


def check_scopes(scopes: tuple[Scope, ...], holder: str = "A credential") -> tuple[Scope, ...]:
    """Return each scope once, in the order of the model, so that equal sets look equal. Raises BadRequest if there are
    none or one is unknown."""
    if not scopes or any(scope not in SCOPES for scope in scopes):
        raise BadRequest(f"{holder} needs at least one of the scopes {', '.join(SCOPES)}.")
    return tuple(scope for scope in SCOPES if scope in scopes)
