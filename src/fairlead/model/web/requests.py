"""A request's head and the steps that answer it, shared by routes and sockets. Plain values, no HTTP library."""

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Generic, Literal, TypeVar, overload
from urllib.parse import parse_qsl

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.commands import Command, CommandBase, Reply
from fairlead.model.errors import BadRequest
from fairlead.model.queries import Query, QueryBase

A = TypeVar("A")

_NO_TOKEN_HEADERS = ("cookie", "authorization", "host", "origin")


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A request without its body, as received. `local` is our own address on which it arrived."""

    method: str
    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    """Names in lower case, in the order sent."""
    peer: str = ""
    local: str = ""
    secure: bool = False
    socket: bool = False

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.headers if key == name)

    def first(self, name: str) -> str:
        """The first value of a header; empty if it is missing."""
        return next((value for key, value in self.headers if key == name), "")


def parse_query(query: str) -> dict[str, str]:
    """The first value of each name; invalid UTF-8 becomes replacement characters and matches nothing."""
    found: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=100, errors="replace")
    except ValueError:
        raise BadRequest("The query has more than 100 fields.") from None
    for name, value in pairs:
        found.setdefault(name, value)
    return found


class Response(msgspec.Struct, frozen=True, kw_only=True):
    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


Refused = Callable[[int, str, str], Response]
"""Builds a protocol's response to a rejection by the gate or the server, from status, code and message. The status
stays the same."""


class RouteBase(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of every route, of HTTP and of WebSockets.

    `token_query`: a query parameter that carries our token, for clients that cannot set a header. `token_header`: a
    header that carries it in addition to Authorization, in lower case. `accounts`: the token of a user who signed in
    with a password is accepted too. `agents`: the callers are agents: the core marks and limits what they send, and the
    token of a session's own agent is accepted too. `query_first`: a query token takes precedence over a header token,
    and the header may have any scheme (first word). `app_origins`: origins of installed apps, which no web page can
    have: they are accepted too. `refused`: encodes the gate's rejection. A path has parameters as `{name}`; a last
    `{name...}` takes the rest of the path. `place` session: it needs the processes or files of the session in its path,
    so that the node that has them serves it."""

    path: str
    name: str
    token_query: str = ""
    token_header: str = ""
    accounts: bool = False
    agents: bool = False
    query_first: bool = False
    app_origins: tuple[str, ...] = ()
    refused: Refused | None = None
    place: Literal["here", "session"] = "here"

    def __post_init__(self) -> None:
        # Browsers send cookies with unintended requests too.
        if self.token_header != self.token_header.lower() or self.token_header in _NO_TOKEN_HEADERS:
            raise ValueError(f"{self.name}: the header {self.token_header} cannot carry a token")


class ServiceCall(msgspec.Struct, Generic[A], frozen=True):
    """Base of calls that are neither a command to a session nor a query: credentials, trust. Done by a handler. `A` is
    the type of the answer."""


ServiceHandler = Callable[[Identity, Any], Awaitable[Any]]
ServiceHandlers = Mapping[type[ServiceCall[Any]], ServiceHandler]
"""The functions that perform service calls for an authenticated caller, by the type of the call."""

Step = Command | Query | ServiceCall[Any]


@overload
def do(step: CommandBase) -> Generator[Step, Any, Reply]: ...
@overload
def do(step: QueryBase[A] | ServiceCall[A]) -> Generator[Step, Any, A]: ...
def do(step: Any) -> Generator[Step, Any, Any]:
    """Perform a step in a handler or a flow and return its answer, typed: `view = yield from do(GetSession(id))`."""
    return (yield step)
