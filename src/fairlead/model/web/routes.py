"""Routes as data: the declarations of a protocol folder, and requests and responses as plain values. No HTTP library.

A route's `handle` is a generator: it yields commands, queries and service calls, receives the answer of each (or has
its error raised into it) and returns a response. Before the first yield it is a decoder, after the last an encoder, and
it stays pure: the server executes the steps.

    routes = Routes()

    @routes.post("/v1/sessions/{session}/interrupt", access="chat", name="sessions.interrupt", answer=Reply)
    def interrupt(request: Request) -> Steps:
        "Stop the running turn."
        reply = yield Interrupt(session=request.session)
        return json_response(reply)
"""

import inspect
from collections.abc import Callable, Generator, Mapping
from typing import Any, BinaryIO, Literal, Protocol, TypedDict, TypeVar, Unpack, get_args

import msgspec

from fairlead.model.auth import Identity, Scope
from fairlead.model.errors import BadRequest, FairleadError
from fairlead.model.gateway import Contextual, Cursor, FrameEncoder
from fairlead.model.ids import SessionId, session_id
from fairlead.model.store import Entry
from fairlead.model.views import Projection
from fairlead.model.web.requests import Head, Refused, Response, RouteBase, ServiceCall, Step
from fairlead.model.web.session_changes import ChangeListenerHandle, SessionChangeNotice
from fairlead.model.web.sockets import SocketRoute

T = TypeVar("T")

Access = Scope | Literal["public", "any", "agent"]
"""The access that a route requires. Public routes are few and named; `any` is any valid credential; `agent` is only the
token of the agent of the session that the path names. There is no default."""

Login = Literal["basic", "token"]
"""How a browser signs in on a door: by HTTP Basic, without support from its pages, or by a token that they send."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`fresh` is an unused UUID from the server, for an object that the handler creates; `base` is our own address;
    `at` is the time when the request was read, in milliseconds."""

    head: Head
    who: Identity
    fresh: str
    at: int = 0
    version: str = ""
    base: str = ""
    params: dict[str, str] = {}
    query: dict[str, str] = {}
    body: bytes = b""

    @property
    def session(self) -> SessionId:
        """The session that the path names. Raises BadId."""
        return session_id(self.params["session"])

    def json(self, kind: type[T]) -> T:
        """The body as `kind`; an empty body is an empty object. BadRequest describes a fault."""
        return read_json(self.body or b"{}", kind)

    def query_int(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number from the query, within bounds."""
        text = self.query.get(name)
        if text is None:
            return default
        # No seq needs more digits: int() of a long text is slow, and Python itself rejects it.
        if not text.isascii() or not text.isdigit() or len(text) > 18 or not least <= int(text) <= most:
            raise BadRequest(f"{name} must be a whole number from {least} to {most}.", field=name)
        return int(text)


def read_json(data: bytes, kind: type[T], what: str = "The body") -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{what} does not fit: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest(f"{what} is not JSON.") from None


class LogRenderer(Protocol):
    """Turns a log into a document, piece by piece."""

    def begin(self) -> bytes: ...
    def entry(self, entry: Entry) -> bytes: ...
    def end(self) -> bytes: ...


class LogStream(msgspec.Struct, frozen=True, kw_only=True):
    """A response that is a whole log, rendered as it is read."""

    session: SessionId
    renderer: LogRenderer
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


class ChangeStream(msgspec.Struct, frozen=True, kw_only=True):
    """A streaming response: change notices as they come, and a `beat` after `every` seconds without one."""

    listener: ChangeListenerHandle
    encode: Callable[[SessionChangeNotice], bytes]
    beat: bytes
    content_type: str
    every: float = 30.0


class StreamEncoder(FrameEncoder, Contextual, Protocol):
    """The encoder of a response that is made from a subscription. Its contexts show when the response ends."""

    def finished(self, context: Any) -> bool:
        """The last frame was sent."""

    def settling(self, context: Any) -> bool:
        """The response ends soon, with the frames of `settled`, unless further entries change that."""

    def settled(self, context: Any) -> bytes: ...
    def failed(self, context: Any, error: FairleadError) -> bytes:
        """The last frames of a response that breaks off."""


class SessionStream(msgspec.Struct, frozen=True, kw_only=True):
    """A streaming response: `first`, then the frames of a subscription until its encoder has finished. `gap` is sent
    before them if the cursor is not valid. `beat` is sent after `every` seconds without a frame; `settle` is the time
    in seconds that a settling response waits. `name`: the stream receives the frames of `SendToStreams`."""

    session: SessionId
    cursor: Cursor
    encoder: StreamEncoder
    first: bytes
    beat: bytes
    content_type: str
    gap: bytes = b""
    name: str = ""
    every: float = 15.0
    settle: float = 0.05


class SendToStreams(ServiceCall[None], frozen=True):
    """Send a frame to the streams with this name that the caller's credential has open on the session, or opens within
    a minute. The frame may arrive twice."""

    session: SessionId
    name: str
    frame: bytes


class FileStream(msgspec.Struct, frozen=True, kw_only=True):
    """A response that is the content of an open file, read as the client receives it, then closed."""

    file: BinaryIO
    size: int
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


Answer = Response | LogStream | ChangeStream | SessionStream | FileStream

Steps = Generator[Step, Any, Answer]

Handler = Callable[[Request], Steps]

_encoder = msgspec.json.Encoder()


def json_response(value: Any, status: int = 200) -> Response:
    return Response(status=status, body=_encoder.encode(value))


class Param(msgspec.Struct, frozen=True):
    """A query parameter, for the reference."""

    name: str
    kind: type = str
    about: str = ""
    required: bool = False


class Route(RouteBase, frozen=True, kw_only=True):
    """One HTTP route. `about`, `body`, `answer` (one type, or several), `status` and `query` describe it in the OpenAPI
    document, which the native protocol has.

    `signed`: a short-lived signed URL is accepted too. `body_limit`: maximum bytes of the body, if not the default.
    `form`: the body is a form with files; it is read when the handler requests it (`uploads.api.AcceptForm`). `waits`:
    the answer may take hours; when the client leaves, or the server stops, the handler is cancelled. `page`: a browser
    may come here by a link of another site."""

    method: str
    access: Access
    handle: Handler
    about: str = ""
    body: Any = None
    answer: Any = None
    status: int = 200
    query: tuple[Param, ...] = ()
    signed: bool = False
    body_limit: int | None = None
    form: bool = False
    waits: bool = False
    page: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS or not self.path.startswith("/"):
            raise ValueError(f"{self.name}: {self.method} {self.path} is not a route")
        if self.access not in ("public", "any", "agent", *get_args(Scope)):
            raise ValueError(f"{self.name}: {self.access} is not a scope")
        super().__post_init__()


H = TypeVar("H", bound=Callable[[Request], Steps | Answer])


class Declare(Protocol):
    def __call__(self, handler: H, /) -> H: ...


class RouteFields(TypedDict, total=False):
    """The fields of a `Route` that a declaration may leave out."""

    about: str
    body: Any
    answer: Any
    status: int
    query: tuple[Param, ...]
    token_query: str
    token_header: str
    accounts: bool
    agents: bool
    query_first: bool
    refused: Refused | None
    signed: bool
    body_limit: int | None
    form: bool
    waits: bool
    page: bool


class Routes(list[Route]):
    """The routes of a module, each declared above its handler. A handler without steps is a plain function.

    A route's `about` is the first paragraph of the handler's docstring, unless it is given. `prefix` begins every name,
    and `common` are fields that all routes of the list have."""

    def __init__(self, prefix: str = "", **common: Unpack[RouteFields]) -> None:
        super().__init__()
        self._prefix = prefix
        self._common = common

    def get(self, path: str, access: Access, name: str, **fields: Unpack[RouteFields]) -> Declare:
        return self._declare("GET", path, access, name, fields)

    def post(self, path: str, access: Access, name: str, **fields: Unpack[RouteFields]) -> Declare:
        return self._declare("POST", path, access, name, fields)

    def put(self, path: str, access: Access, name: str, **fields: Unpack[RouteFields]) -> Declare:
        return self._declare("PUT", path, access, name, fields)

    def patch(self, path: str, access: Access, name: str, **fields: Unpack[RouteFields]) -> Declare:
        return self._declare("PATCH", path, access, name, fields)

    def delete(self, path: str, access: Access, name: str, **fields: Unpack[RouteFields]) -> Declare:
        return self._declare("DELETE", path, access, name, fields)

    def _declare(self, method: str, path: str, access: Access, name: str, fields: RouteFields) -> Declare:
        def declare(handler: H) -> H:
            def handle(request: Request) -> Steps:
                answer = handler(request)
                return (yield from answer) if isinstance(answer, Generator) else answer

            about = " ".join((inspect.getdoc(handler) or "").partition("\n\n")[0].split())
            given: RouteFields = {"about": about, **self._common, **fields}
            full_name = f"{self._prefix}{name}"
            self.append(Route(method=method, path=path, access=access, name=full_name, handle=handle, **given))
            return handler

        return declare


class ClientProtocol(msgspec.Struct, frozen=True, kw_only=True):
    """The `PROTOCOL` that a folder under `clients/` declares, with the paths of the protocol's original server.

    On a door (`--door NAME=PORT`) all routes and sockets answer at these paths. On the main port the sockets do, and
    the routes below `root_paths`; everything also answers below `prefix`. Without a prefix everything is at the root.
    `views`: its projections; no other protocol may use their names. `door_options`: query parameters for which a door
    can set a default (`--door NAME=PORT,OPTION=VALUE`); `check_options` raises BadRequest for invalid values.
    `door_sockets`: sockets on its door only. `invitations`: the path of its page that accepts an invitation.
    `door_login`: how browsers sign in on its door by default: `basic` if its pages cannot sign in themselves, else
    `token`. `refused`: encodes errors on its door that no handler produces: an unknown path, a body that is too large,
    an internal error."""

    name: str
    routes: tuple[Route, ...] = ()
    sockets: tuple[SocketRoute, ...] = ()
    prefix: str = ""
    root_paths: tuple[str, ...] = ()
    views: tuple[Projection, ...] = ()
    door_options: tuple[str, ...] = ()
    check_options: Callable[[Mapping[str, str]], None] | None = None
    door_sockets: tuple[SocketRoute, ...] = ()
    invitations: str = ""
    door_login: Login = "token"
    refused: Refused | None = None

    def __post_init__(self) -> None:
        if self.prefix and (not self.prefix.startswith("/") or self.prefix.endswith("/")):
            raise ValueError(f"{self.name}: a prefix begins with a slash and does not end with one: {self.prefix}")
