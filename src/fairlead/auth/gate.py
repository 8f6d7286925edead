"""The gate: decides whether to admit a request. Pure. One decision for HTTP and WebSocket, before a route's code runs.

Checked in this order: Host, Origin, Sec-Fetch-Site, credential, scope. Every check must pass. Cookies are always
ignored. HTTP Basic is accepted on doors that require it and, since a browser adds it to the requests of any page, only
in requests that were not caused by another origin. A rejection reveals which check failed and nothing else: not
whether a path, a token or a user exists.
"""

import base64
import binascii
from typing import Final, Literal, Protocol

import msgspec

from fairlead.auth.origins import AllowedOrigins, parse_authority, parse_origin
from fairlead.model.auth import Identity, Scope
from fairlead.model.errors import BadRequest
from fairlead.model.web.requests import Head, parse_query
from fairlead.model.web.routes import Access

ANONYMOUS: Final = Identity(credential="", user="", name="", scopes=frozenset())
"""The identity of the caller on a public route."""

_LONGEST_BASIC: Final = 4096
"""Characters of an HTTP Basic header: more than the longest name and password need."""
_AGENT_SCOPES: Final[tuple[Scope, ...]] = ("view", "chat")
"""The scopes that a credential can have on a route for agents."""
_READING: Final = frozenset({"GET", "HEAD"})


class AccessRequirement(msgspec.Struct, frozen=True, kw_only=True):
    access: Access
    token_query: str = ""
    token_header: str = ""
    signed: bool = False
    session: str = ""
    """The session in the path, if any: an agent's token is valid for its own session alone."""
    accounts: bool = False
    """The token of a user who signed in with a password is accepted too."""
    agents: bool = False
    """The callers are agents, and the token of a session's own agent is accepted too."""
    query_first: bool = False
    """A token in the query takes precedence over one in a header, and the header may use any scheme."""
    basic: bool = False
    """HTTP Basic is accepted too: a name with a password, or with a token in place of the password."""
    app_origins: tuple[str, ...] = ()
    """Origins of installed apps that are accepted here: their schemes are not the web's, so that no page has them."""
    page: bool = False
    """A link on another site may lead here: it is opened as a top-level page, and changes nothing."""


class CredentialLookup(Protocol):
    """Looks up credentials, without waiting and without changing anything that a decision depends on."""

    def bearer(self, secret: str) -> Identity | None: ...
    def ticket(self, ticket: str) -> Identity | None: ...
    def signature(self, path: str, query: str) -> Identity | None: ...
    def agent(self, secret: str, session: str) -> Identity | None: ...
    def account(self, token: str) -> Identity | Literal["expired"] | None: ...
    def basic(self, name: str, password: str) -> Identity | None: ...
    def session_agent(self, secret: str) -> Identity | None: ...


class AccessAllowed(msgspec.Struct, frozen=True):
    """The request is admitted. The caller of `decide` has to spend `ticket` now."""

    identity: Identity
    ticket: str = ""


class AccessRefused(msgspec.Struct, frozen=True):
    """The request is rejected. `basic`: the browser should prompt its user for name and password. `wait`: seconds until
    the client may try again."""

    status: int
    code: str
    message: str
    basic: bool = False
    wait: int = 0


_BAD_HOST: Final = AccessRefused(400, "bad_host", "The request needs exactly one Host header of the form name:port.")
_FOREIGN_HOST: Final = AccessRefused(
    421, "foreign_host", "This gateway does not answer to that host name: use its own address, or set --public-url."
)
_FOREIGN_ORIGIN: Final = AccessRefused(403, "foreign_origin", "Pages of another origin may not talk to this gateway.")
_CROSS_SITE: Final = AccessRefused(403, "cross_site", "The request comes from a page of another site.")
_AMBIGUOUS: Final = AccessRefused(400, "bad_credential", "The request carries more than one header with a token.")
_NO_CREDENTIAL: Final = AccessRefused(401, "no_credential", "A token is needed: send it as Authorization: Bearer.")
BAD_CREDENTIAL: Final = AccessRefused(401, "bad_credential", "The credential is not valid.")
_SIGN_IN: Final = AccessRefused(
    401, "no_credential", "Sign in: a name and its password, or any name and a token.", basic=True
)
_NOT_SIGNED_IN: Final = AccessRefused(401, "bad_credential", "The name and the password do not match.", basic=True)
_EXPIRED: Final = AccessRefused(401, "expired_credential", "The token has expired: sign in again.")
_AGENTS_ONLY: Final = AccessRefused(403, "not_allowed", "This is open to the session's own agent alone.")


def decide(
    head: Head, demand: AccessRequirement, allowed: AllowedOrigins, keys: CredentialLookup
) -> AccessAllowed | AccessRefused:
    """Decide whether to admit a request. The peer's address in the head is ignored: loopback is not a credential."""
    refused = _check_place(head, allowed, demand.app_origins)
    if refused is not None:
        return refused
    if demand.access == "public":
        return AccessAllowed(ANONYMOUS)
    if demand.access == "agent":
        return _agent(head, demand, keys)
    ambient = _ambient(head, demand)
    found = _basic(head, demand, allowed, keys) if ambient else _credential(head, demand, keys)
    if isinstance(found, AccessRefused):
        return found
    if demand.agents:
        found = msgspec.structs.replace(found, identity=_as_agent(found.identity))
    if demand.access != "any" and not found.identity.may(demand.access):
        return AccessRefused(
            403, "not_allowed", f"This needs the scope {demand.access}, which your credential does not have."
        )
    return found


def _as_agent(identity: Identity) -> Identity:
    """The caller as an agent: it decides nothing for its user, and sees no other users' sessions, even if the
    credential is an admin's."""
    scopes = frozenset(scope for scope in _AGENT_SCOPES if identity.may(scope))
    return msgspec.structs.replace(identity, agent=True, scopes=scopes)


def _check_place(head: Head, allowed: AllowedOrigins, apps: tuple[str, ...] = ()) -> AccessRefused | None:
    hosts = head.all("host")
    host = parse_authority(hosts[0]) if len(hosts) == 1 else None
    if host is None:
        return _BAD_HOST
    if not allowed.owns_host(host, local=head.local, secure=head.secure):
        return _FOREIGN_HOST
    origins = head.all("origin")
    invited = len(origins) == 1 and origins[0] in apps
    if origins and not invited:
        origin = parse_origin(origins[0]) if len(origins) == 1 else None
        if origin is None:
            return _FOREIGN_ORIGIN
        invited = origin in allowed.origins
        if not invited and not allowed.owns_origin(origin, local=head.local, secure=head.secure):
            return _FOREIGN_ORIGIN
    # `same-site` is not enough: every other port of this host belongs to the same site.
    changing = head.socket or head.method not in _READING
    if changing and not invited and any(site not in ("same-origin", "none") for site in head.all("sec-fetch-site")):
        return _CROSS_SITE
    return None


def basic_to_check(head: Head, demand: AccessRequirement, allowed: AllowedOrigins) -> tuple[str, str] | None:
    """Return the name and password that the decision will depend on, unless another check rejects the request."""
    if demand.access in ("public", "agent") or not _ambient(head, demand):
        return None
    if _check_place(head, allowed) is not None or not _from_here(head, demand, allowed):
        return None
    return _name_and_password(head)


def _ambient(head: Head, demand: AccessRequirement) -> bool:
    """Return whether the credential is one that a browser adds by itself, or is missing and could be one."""
    if not demand.basic:
        return False
    headers = head.all("authorization")
    if headers:
        return _is_basic(headers[0])
    return not (demand.token_header and head.all(demand.token_header)) and not _from_query(head, demand)[0]


def _from_here(head: Head, demand: AccessRequirement, allowed: AllowedOrigins) -> bool:
    """Return whether the request was not caused by a page of another origin, not even an invited one. A link to a page
    may be followed from anywhere."""
    for origin in head.all("origin"):
        parsed = parse_origin(origin)
        if parsed is None or not allowed.owns_origin(parsed, local=head.local, secure=head.secure):
            return False
    if all(site in ("same-origin", "none") for site in head.all("sec-fetch-site")):
        return True
    opened = head.all("sec-fetch-mode") == ("navigate",) and head.all("sec-fetch-dest") == ("document",)
    return demand.page and opened and head.method in _READING and not head.socket


def _basic(
    head: Head, demand: AccessRequirement, allowed: AllowedOrigins, keys: CredentialLookup
) -> AccessAllowed | AccessRefused:
    if not _from_here(head, demand, allowed):
        return _CROSS_SITE
    headers = head.all("authorization")
    if not headers:
        return _SIGN_IN
    if len(headers) > 1:
        return _AMBIGUOUS
    given = _name_and_password(head)
    found = None if given is None else keys.basic(*given)
    return _NOT_SIGNED_IN if found is None else AccessAllowed(found)


def _name_and_password(head: Head) -> tuple[str, str] | None:
    """Decode HTTP Basic. Returns None unless there is exactly one such header, in UTF-8 (RFC 7617)."""
    headers = head.all("authorization")
    if len(headers) != 1 or not _is_basic(headers[0]) or len(headers[0]) > _LONGEST_BASIC:
        return None
    try:
        text = base64.b64decode(headers[0].strip().partition(" ")[2].strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return (name, password) if colon else None


def _is_basic(header: str) -> bool:
    return header.strip().partition(" ")[0].lower() == "basic"


def _agent(head: Head, demand: AccessRequirement, keys: CredentialLookup) -> AccessAllowed | AccessRefused:
    """Check an agent's token, which comes in a header and is valid for the routes of its session. A person's token is
    not valid for them."""
    secret = _header_token(head)
    if isinstance(secret, AccessRefused):
        return secret
    if secret is None:
        return _NO_CREDENTIAL
    found = keys.agent(secret, demand.session)
    if found is not None:
        return AccessAllowed(found)
    return BAD_CREDENTIAL if not secret or keys.bearer(secret) is None else _AGENTS_ONLY


def _header_token(head: Head, name: str = "authorization", *, any_scheme: bool = False) -> str | AccessRefused | None:
    """Return the token in a header; None without such a header. The token in Authorization is empty if its scheme is
    not Bearer; a protocol's own header may leave the scheme out."""
    headers = head.all(name)
    if len(headers) > 1:
        return _AMBIGUOUS
    if not headers:
        return None
    scheme, _, secret = headers[0].strip().partition(" ")
    if any_scheme or scheme.lower() == "bearer":
        return secret.strip()
    return "" if name == "authorization" else headers[0].strip()


def _credential(head: Head, demand: AccessRequirement, keys: CredentialLookup) -> AccessAllowed | AccessRefused:
    """Check the first kind of credential in the request; if it is bad, others are not tried."""
    secret = _header_token(head, any_scheme=demand.query_first)
    if secret is None and demand.token_header:
        secret = _header_token(head, demand.token_header)
    if isinstance(secret, AccessRefused):
        return secret
    kind, value = _from_query(head, demand)
    if secret is not None and not (demand.query_first and kind == "token"):
        return _token(secret, demand, keys)
    if not kind:
        return _NO_CREDENTIAL
    if kind == "ticket":
        found = keys.ticket(value)
        return BAD_CREDENTIAL if found is None else AccessAllowed(found, value)
    if kind == "token":
        return _token(value, demand, keys)
    found = keys.signature(head.path, head.query)
    return BAD_CREDENTIAL if found is None else AccessAllowed(found)


def _token(secret: str, demand: AccessRequirement, keys: CredentialLookup) -> AccessAllowed | AccessRefused:
    """Check one of our tokens or, if the route accepts it, the token of a user who signed in."""
    found: Identity | Literal["expired"] | None = keys.bearer(secret) if secret else None
    if found is None and secret and demand.accounts:
        found = keys.account(secret)
    if found is None and secret and demand.agents:
        found = keys.session_agent(secret)
    if found == "expired":
        return _EXPIRED
    return AccessAllowed(found) if isinstance(found, Identity) else BAD_CREDENTIAL


def _from_query(head: Head, demand: AccessRequirement) -> tuple[Literal["", "ticket", "signature", "token"], str]:
    if not head.query:
        return "", ""
    try:
        query = parse_query(head.query)
    except BadRequest:
        return "", ""
    if head.socket and "ticket" in query:
        return "ticket", query["ticket"]
    if demand.signed and "sig" in query:
        return "signature", query["sig"]
    if demand.token_query and demand.token_query in query:
        return "token", query[demand.token_query]
    return "", ""
