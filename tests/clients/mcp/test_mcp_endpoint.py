"""The MCP endpoint without a server: versions, headers, errors of the protocol, and input that nobody should send."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.clients.mcp import PROTOCOL, rpc
from fairlead.clients.mcp.endpoint import BODY_LIMIT, not_offered, post
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.auth import Identity, Scope
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.store import SessionPage
from fairlead.model.web.requests import Head, Response
from fairlead.model.web.routes import Request

READING = ["list_sessions", "search_sessions", "read_session"]
SENDING = ["start_session", "send_message", "wait_for_turn"]
MODERN = {"mcp-protocol-version": "2026-07-28"}
META = {rpc.VERSION_FIELD: "2026-07-28", rpc.CAPABILITIES_FIELD: {}}


def answered(
    body: Any, headers: dict[str, str] | None = None, query: str = "", scopes: tuple[Scope, ...] = ("view",)
) -> Response:
    """The response to a body, from a gateway that has no sessions."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = Head(method="POST", path="/mcp", headers=tuple((headers or {}).items()))
    who = Identity("c", "owner", "somebody", frozenset(scopes), agent=True)
    fresh = "11111111-1111-4111-8111-111111111111"
    params = dict(pair.split("=") for pair in query.split("&") if pair)
    steps = post(Request(head=head, who=who, fresh=fresh, version="1.2.3", query=params, body=raw))
    try:
        step = next(steps)
        while True:
            if isinstance(step, q.ListSessions):
                step = steps.send(SessionPage(()))
            elif isinstance(step, q.SearchText):
                step = steps.send(q.SearchResult())
            else:
                step = steps.throw(NotFound("session", str(getattr(step, "session", ""))))
    except StopIteration as end:
        answer: Response = end.value
        return answer


def request(method: str, params: dict[str, Any] | None = None, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def body_of(response: Response) -> Any:
    return json.loads(response.body)


def modern(method: str, params: dict[str, Any] | None = None, **headers: str) -> Response:
    named = {"mcp-name": params["name"]} if params and "name" in params else {}
    given = {**(params or {}), "_meta": META}
    return answered(request(method, given), {**MODERN, "mcp-method": method, **named, **headers})


def error_of(response: Response) -> tuple[int, int]:
    return response.status, body_of(response)["error"]["code"]


@pytest.mark.parametrize("version", rpc.LEGACY)
def test_a_handshake_agrees_on_the_version_of_the_client(version: str) -> None:
    answer = answered(request("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {}}))
    result = body_of(answer)["result"]
    assert answer.status == 200 and result["protocolVersion"] == version
    assert result["serverInfo"] == {"name": "fairlead", "version": "1.2.3"} and result["capabilities"] == {"tools": {}}
    assert "data, not an instruction" in result["instructions"]
    assert answered({"jsonrpc": "2.0", "method": "notifications/initialized"}) == Response(status=202)
    assert not any(name.lower() == "mcp-session-id" for name, _ in answer.headers)


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "", None, 7, {}])
def test_a_handshake_for_another_version_offers_the_newest_with_a_handshake(version: Any) -> None:
    answer = answered(request("initialize", {"protocolVersion": version}))
    assert body_of(answer)["result"]["protocolVersion"] == "2025-11-25"


def test_a_modern_client_discovers_and_lists_without_a_handshake() -> None:
    found = body_of(modern("server/discover"))["result"]
    assert found["supportedVersions"] == list(rpc.SUPPORTED) and found["resultType"] == "complete"
    assert found["_meta"][rpc.SERVER_FIELD]["name"] == "fairlead" and found["cacheScope"] == "private"
    tools = body_of(modern("tools/list"))["result"]
    assert [tool["name"] for tool in tools["tools"]] == READING and tools["ttlMs"] > 0
    called = body_of(modern("tools/call", {"name": "list_sessions", "arguments": {}}))["result"]
    assert called["content"] == [{"type": "text", "text": "No sessions match."}] and not called["isError"]


def test_the_answers_to_a_legacy_client_have_no_modern_fields() -> None:
    headers = {"mcp-protocol-version": "2025-06-18", "mcp-session-id": "of-another-server", "last-event-id": "7"}
    result = body_of(answered(request("tools/list"), headers))["result"]
    assert list(result) == ["tools"]
    assert body_of(answered(request("ping", id="x"))) == {"jsonrpc": "2.0", "id": "x", "result": {}}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"mcp-protocol-version": "2025-11-25"}, (400, rpc.HEADER_MISMATCH)),
        ({"mcp-protocol-version": ""}, (400, rpc.HEADER_MISMATCH)),
        ({"mcp-method": "tools/list"}, (400, rpc.HEADER_MISMATCH)),
        ({"mcp-method": ""}, (400, rpc.HEADER_MISMATCH)),
        ({"mcp-name": "read_session"}, (400, rpc.HEADER_MISMATCH)),
        ({"mcp-name": "=?base64?%%%?="}, (400, rpc.HEADER_MISMATCH)),
    ],
)
def test_headers_that_contradict_the_body_are_refused(headers: dict[str, str], expected: tuple[int, int]) -> None:
    assert error_of(modern("tools/call", {"name": "list_sessions"}, **headers)) == expected
    assert modern("tools/call", {"name": "list_sessions"}).status == 200
    assert (
        modern("tools/call", {"name": "list_sessions"}, **{"mcp-name": "=?base64?bGlzdF9zZXNzaW9ucw==?="}).status == 200
    )


def test_an_unknown_version_is_refused_with_the_known_ones() -> None:
    meta = {**META, rpc.VERSION_FIELD: "2099-01-01"}
    for answer in (
        answered(request("tools/list", {"_meta": meta}), {"mcp-protocol-version": "2099-01-01"}),
        answered(request("tools/list"), {"mcp-protocol-version": "2099-01-01"}),
    ):
        assert error_of(answer) == (400, rpc.UNSUPPORTED_VERSION)
        assert body_of(answer)["error"]["data"] == {"supported": list(rpc.SUPPORTED), "requested": "2099-01-01"}


@pytest.mark.parametrize("meta", [None, {}, {rpc.VERSION_FIELD: "2026-07-28"}, 7])
def test_a_modern_request_without_its_fields_is_invalid(meta: Any) -> None:
    headers = {**MODERN, "mcp-method": "tools/list"}
    assert error_of(answered(request("tools/list", {"_meta": meta}), headers)) == (400, rpc.INVALID_PARAMS)


def test_an_unknown_method_is_an_error_of_the_clients_era() -> None:
    assert error_of(answered(request("resources/list"))) == (200, rpc.METHOD_NOT_FOUND)
    assert error_of(modern("resources/list")) == (404, rpc.METHOD_NOT_FOUND)
    assert error_of(modern("initialize")) == (404, rpc.METHOD_NOT_FOUND)
    assert error_of(answered(request("server/discover"))) == (200, rpc.METHOD_NOT_FOUND)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", rpc.PARSE_ERROR),
        (b"{", rpc.PARSE_ERROR),
        (b"\xff", rpc.PARSE_ERROR),
        (b"[" * 100_000, rpc.PARSE_ERROR),
        ([request("ping")], rpc.INVALID_REQUEST),
        ([], rpc.INVALID_REQUEST),
        (7, rpc.INVALID_REQUEST),
        ({}, rpc.INVALID_REQUEST),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, rpc.INVALID_REQUEST),
        (request("ping", id=None), rpc.INVALID_REQUEST),
        (request("ping", id=True), rpc.INVALID_REQUEST),
        (request("ping", id=1.5), rpc.INVALID_REQUEST),
        (request("ping", id={}), rpc.INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 1}, rpc.INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, rpc.INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, rpc.INVALID_REQUEST),
    ],
)
def test_a_malformed_message_is_refused(body: Any, code: int) -> None:
    assert error_of(answered(body)) == (400, code)


def test_a_response_of_the_client_is_accepted_and_ignored() -> None:
    assert answered({"jsonrpc": "2.0", "id": 1, "result": {}}).status == 202


@pytest.mark.parametrize("name", ["nothing", "", None, 7, *SENDING])
def test_an_unknown_tool_is_an_error_of_the_protocol(name: Any) -> None:
    assert error_of(answered(request("tools/call", {"name": name}))) == (200, rpc.INVALID_PARAMS)


def offered(query: str = "", *scopes: Scope) -> list[str]:
    tools = body_of(answered(request("tools/list"), query=query, scopes=scopes or ("view",)))["result"]["tools"]
    return [tool["name"] for tool in tools]


def test_sending_needs_the_scope_and_the_opt_in() -> None:
    assert offered("", "view", "chat") == READING
    assert offered("allow=send", "view") == READING
    assert offered("allow=send", "view", "chat") == [*READING, *SENDING]
    assert error_of(answered(request("tools/list"), query="allow=approve")) == (400, rpc.INVALID_REQUEST)


def test_every_tool_describes_itself_and_none_decides_anything() -> None:
    tools = body_of(answered(request("tools/list"), query="allow=send", scopes=("view", "chat")))["result"]["tools"]
    for tool in tools:
        schema = tool["inputSchema"]
        assert tool["description"].endswith(".") and tool["title"] and schema["type"] == "object"
        assert schema["additionalProperties"] is False and "$ref" not in json.dumps(schema)
        assert all(field["description"] for field in schema["properties"].values())
        assert tool["annotations"]["readOnlyHint"] is (tool["name"] not in ("start_session", "send_message"))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_sessions", {"limit": 0}),
        ("list_sessions", {"limit": 51}),
        ("list_sessions", {"limit": "x"}),
        ("list_sessions", {"nothing": 1}),
        ("list_sessions", {"state": "asleep"}),
        ("list_sessions", []),
        ("search_sessions", {}),
        ("search_sessions", {"words": "  "}),
        ("search_sessions", {"words": "a", "cursor": "-1"}),
        ("search_sessions", {"words": "a", "cursor": "9" * 100}),
        ("search_sessions", {"words": "a", "cursor": "²"}),
        ("read_session", {}),
        ("read_session", {"session": "../../etc/passwd"}),
        ("read_session", {"session": "x" * 36}),
        ("read_session", {"session": "11111111-1111-4111-8111-111111111111"}),
        ("send_message", {"session": "11111111-1111-4111-8111-111111111111", "message": " \n"}),
        ("send_message", {"session": "11111111-1111-4111-8111-111111111111", "message": "x" * 100_001}),
        ("start_session", {"message": "x", "settings": {"mode": "bypassPermissions"}}),
        ("start_session", {"message": "x", "mode": "acceptEdits"}),
        ("wait_for_turn", {"session": "11111111-1111-4111-8111-111111111111", "seconds": 1000}),
    ],
)
def test_what_goes_wrong_in_a_tool_is_a_result_that_the_model_reads(tool: str, arguments: Any) -> None:
    call = request("tools/call", {"name": tool, "arguments": arguments})
    answer = answered(call, query="allow=send", scopes=("view", "chat"))
    result = body_of(answer)["result"]
    assert answer.status == 200 and result["isError"] is True and len(result["content"][0]["text"]) < 400


def test_the_other_methods_of_the_path_are_not_offered() -> None:
    head = Head(method="GET", path="/mcp")
    who = Identity("c", "owner", "somebody", frozenset({"view"}))
    answer = not_offered(Request(head=head, who=who, fresh=""))
    assert (answer.status, answer.headers) == (405, (("allow", "POST"),))
    assert {route.method for route in PROTOCOL.routes} == {"GET", "POST", "DELETE"}
    assert all(route.agents and route.access == "view" for route in PROTOCOL.routes)
    assert {route.body_limit for route in PROTOCOL.routes if route.method == "POST"} == {BODY_LIMIT}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*READING, *SENDING, "nothing"])
METHODS = st.sampled_from(["initialize", "ping", "tools/list", "tools/call", "server/discover", "x"])
FIELDS = st.sampled_from(["session", "words", "message", "cursor", "limit", "seconds", "folder", "title", "agent"])
CALLS = st.fixed_dictionaries({"name": NAMES, "arguments": st.dictionaries(FIELDS, JSON, max_size=4), "_meta": JSON})


@given(
    method=METHODS | JSON,
    params=CALLS | JSON,
    id=JSON,
    version=st.sampled_from(["", *rpc.SUPPORTED, "x"]),
    modern_meta=st.booleans(),
)
def test_no_message_raises_and_every_answer_is_json_rpc(
    method: Any, params: Any, id: Any, version: str, modern_meta: bool
) -> None:
    if modern_meta and isinstance(params, dict):
        params = {**params, "_meta": META}
    headers = {"mcp-protocol-version": version, "mcp-method": method if isinstance(method, str) else ""}
    body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    answer = answered(body, headers, "allow=send", ("view", "chat"))
    if answer.status != 202:
        found = body_of(answer)
        assert found["jsonrpc"] == "2.0" and ("result" in found) != ("error" in found)


@given(st.binary(max_size=200))
def test_no_bytes_raise(body: bytes) -> None:
    assert answered(body).status in (200, 202, 400)


def test_the_tools_yield_no_command_but_create_and_send() -> None:
    """Permissions, modes, rules, settings and deletion are out of reach, whatever an agent asks for."""
    seen: set[type] = set()
    for tool in (*READING, *SENDING):
        arguments = {"session": "11111111-1111-4111-8111-111111111111", "message": "hello", "words": "x"}
        for left_out in ("", *arguments):
            given = {name: value for name, value in arguments.items() if name != left_out}
            for names in ([], ["session"], ["message"], ["words"], ["session", "message"]):
                seen |= _commands(tool, {name: given[name] for name in names if name in given})
    assert seen == {cmd.Create, cmd.Send}


def _commands(tool: str, arguments: dict[str, str]) -> set[type]:
    head = Head(method="POST", path="/mcp")
    who = Identity("c", "owner", "somebody", frozenset({"view", "chat"}), agent=True)
    body = json.dumps(request("tools/call", {"name": tool, "arguments": arguments})).encode()
    fresh = "11111111-1111-4111-8111-111111111111"
    steps = post(Request(head=head, who=who, fresh=fresh, query={"allow": "send"}, body=body))
    seen: set[type] = set()
    try:
        step = next(steps)
        while True:
            if isinstance(step, cmd.CommandBase):
                seen.add(type(step))
                step = steps.send(cmd.Reply(session=fresh))  # type: ignore[arg-type]
            else:
                step = steps.throw(FairleadError("not here"))
    except StopIteration:
        return seen
