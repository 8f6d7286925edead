"""The route table: one match, literal segments before parameters, and no duplicate routes."""

from typing import Any

import pytest

from fairlead.model.web.routes import ClientProtocol, Request, Route, Steps, json_response
from fairlead.model.web.sockets import SocketRoute
from fairlead.server.errors import RouteClash
from fairlead.server.route_table import RouteTable


def handle(request: Request) -> Steps:
    yield from ()
    return json_response({})


def route(method: str, path: str, name: str = "") -> Route:
    return Route(method=method, path=path, access="view", name=name or path, handle=handle)


def socket(path: str) -> SocketRoute:
    def refuse(opening: Any) -> Any:
        raise AssertionError

    return SocketRoute(path=path, access="view", name=path, open=refuse)


def table(*paths: str) -> RouteTable:
    return RouteTable([ClientProtocol(name="p", routes=tuple(route("GET", path) for path in paths))])


def found(routes: RouteTable, path: str) -> tuple[str, dict[str, str]] | None:
    match = routes.http("GET", path)
    return None if match is None else (match.route.name, match.params)


def test_parameter_matches_one_segment_and_a_rest_parameter_matches_the_rest() -> None:
    routes = table("/a/{x}", "/a/{x}/b/{y}", "/files/{path...}", "/")
    assert found(routes, "/a/1") == ("/a/{x}", {"x": "1"})
    assert found(routes, "/a/1/b/2") == ("/a/{x}/b/{y}", {"x": "1", "y": "2"})
    assert found(routes, "/files/c/d.txt") == ("/files/{path...}", {"path": "c/d.txt"})
    assert found(routes, "/") == ("/", {})


@pytest.mark.parametrize("path", ["", "a/1", "/a", "/a/", "/a//b/2", "/a/1/", "/A/1", "/a/1/b", "//a/1", "*", "/files"])
def test_near_misses_of_a_path_do_not_match(path: str) -> None:
    assert found(table("/a/{x}", "/a/{x}/b/{y}", "/files/{path...}"), path) is None


def test_literal_segment_wins_over_a_parameter_and_the_match_backtracks() -> None:
    routes = table("/s/{id}", "/s/ws", "/s/ws/{id}/subscribe", "/s/{id}/events")
    assert found(routes, "/s/ws") == ("/s/ws", {})
    assert found(routes, "/s/ws/events") == ("/s/{id}/events", {"id": "ws"})
    assert found(routes, "/s/ws/1/subscribe") == ("/s/ws/{id}/subscribe", {"id": "1"})


def test_head_is_answered_as_get_and_the_allowed_methods_are_listed() -> None:
    routes = RouteTable(
        [ClientProtocol(name="p", routes=(route("GET", "/a"), route("POST", "/a"), route("PUT", "/b")))]
    )
    assert routes.http("HEAD", "/a") is not None
    assert routes.http("DELETE", "/a") is None
    assert routes.methods("/a") == ("GET", "POST")
    assert routes.http("HEAD", "/b") is None
    assert routes.methods("/c") == ()


@pytest.mark.parametrize(("one", "two"), [("/a/b", "/a/b"), ("/a/{x}", "/a/{y}"), ("/f/{x...}", "/f/{path...}")])
def test_two_routes_on_one_path_stop_the_start_and_both_are_named(one: str, two: str) -> None:
    first = ClientProtocol(name="happy", routes=(route("GET", one, "first.call"),))
    second = ClientProtocol(name="cognova", routes=(route("GET", two, "second.call"),))
    with pytest.raises(RouteClash) as clash:
        RouteTable([first, second])
    assert "happy (first.call)" in clash.value.message
    assert "cognova (second.call)" in clash.value.message


def test_two_sockets_on_one_path_clash_too_but_a_socket_and_a_call_do_not() -> None:
    both = ClientProtocol(name="p", routes=(route("GET", "/ws"),), sockets=(socket("/ws"),))
    routes = RouteTable([both])
    assert routes.http("GET", "/ws") is not None
    assert routes.socket("/ws") is not None
    assert routes.socket("/nothing") is None
    with pytest.raises(RouteClash):
        RouteTable([both, ClientProtocol(name="q", sockets=(socket("/ws"),))])


def test_methods_of_one_path_may_have_parameters_of_different_names() -> None:
    routes = RouteTable([ClientProtocol(name="p", routes=(route("GET", "/a/{x}"), route("PUT", "/a/{y}")))])
    match = routes.http("PUT", "/a/1")
    assert match is not None and match.params == {"y": "1"}


@pytest.mark.parametrize("odd", [{"method": "FETCH"}, {"path": "nowhere"}, {"access": "root"}, {"access": ""}])
def test_a_route_without_a_real_decision_cannot_be_declared(odd: dict[str, Any]) -> None:
    good: dict[str, Any] = {"method": "GET", "path": "/a", "access": "view", "name": "a", "handle": handle}
    with pytest.raises(ValueError):
        Route(**{**good, **odd})
    with pytest.raises(TypeError):
        Route(method="GET", path="/a", name="a", handle=handle)  # type: ignore[call-arg]  # that is the point
