"""Discovery of protocols: folders of this package, and entry points of other packages."""

import importlib
import pkgutil
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from fairlead.clients.native import PROTOCOL
from fairlead.model.ids import SessionId
from fairlead.model.views import Reducer
from fairlead.model.web.routes import ClientProtocol
from fairlead.server import discovery
from fairlead.server.errors import CannotServe, ProjectionClash


def test_the_native_protocol_is_found() -> None:
    assert PROTOCOL in discovery.discover()


def test_a_protocol_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", "fairlead.clients.native:PROTOCOL", discovery.GROUP)
    monkeypatch.setattr(discovery, "entry_points_of", lambda group: [point])
    assert discovery.discover()[-1] is PROTOCOL


def test_entry_point_that_is_not_a_protocol_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", "fairlead.clients.native:document", discovery.GROUP)
    monkeypatch.setattr(discovery, "entry_points_of", lambda group: [point])
    with pytest.raises(CannotServe, match="theirs"):
        discovery.discover()


def test_a_folder_without_a_protocol_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        name = "happy"

    def load(name: str) -> Any:
        return object()

    monkeypatch.setattr(pkgutil, "iter_modules", lambda path: [Module()])
    monkeypatch.setattr(importlib, "import_module", load)
    with pytest.raises(CannotServe, match=r"fairlead\.clients\.happy"):
        discovery.discover()


def test_every_protocol_has_a_unique_name() -> None:
    names = [protocol.name for protocol in discovery.discover()]
    assert len(names) == len(set(names))
    assert all(isinstance(protocol, ClientProtocol) for protocol in discovery.discover())


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def fold(self, session: SessionId) -> Reducer:
        raise AssertionError("nobody folds here")


def test_projections_are_collected_and_a_duplicate_name_stops_the_start() -> None:
    first, second = Named("happy.messages"), Named("mylifedb.pages")
    ours = ClientProtocol(name="happy", views=(first,))
    theirs = ClientProtocol(name="mylifedb", views=(second,))
    assert discovery.projections_of([ours, theirs]) == {"happy.messages": first, "mylifedb.pages": second}
    twice = ClientProtocol(name="copy", views=(Named("happy.messages"),))
    with pytest.raises(ProjectionClash, match=r"happy\.messages is declared twice, by happy and by copy"):
        discovery.projections_of([ours, theirs, twice])
