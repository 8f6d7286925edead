"""Where the server listens: never open to the network by mistake, and a clear error when it cannot start."""

import socket
from pathlib import Path
from typing import Any

import pytest

from fairlead.auth.origins import Origin
from fairlead.server.errors import BadServerSetting, BadTls, CannotServe, PortInUse, UnsafeBind
from fairlead.server.listeners import Binding, allowed_origins, check_binding, open_sockets, urls

TLS = Path(__file__).parent / "tls"
PAIR: dict[str, Any] = {"tls_cert": TLS / "cert.pem", "tls_key": TLS / "key.pem"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_loopback_needs_nothing_more(host: str) -> None:
    check_binding(Binding(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "2001:db8::1"])
def test_any_other_address_needs_one_of_three_settings_and_the_error_names_them(host: str) -> None:
    with pytest.raises(UnsafeBind) as unsafe:
        check_binding(Binding(host=host))
    for way in ("--tls-cert", "--tls-key", "--public-url", "--insecure-lan"):
        assert way in unsafe.value.message
    assert unsafe.value.exit_code == 2
    check_binding(Binding(host=host, **PAIR))
    check_binding(Binding(host=host, public_url="https://gw.example"))
    check_binding(Binding(host=host, insecure_lan=True))


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ({"tls_cert": TLS / "cert.pem"}, BadTls),
        ({"tls_key": TLS / "key.pem"}, BadTls),
        ({"tls_cert": TLS / "missing.pem", "tls_key": TLS / "key.pem"}, BadTls),
        ({"tls_cert": TLS / "key.pem", "tls_key": TLS / "key.pem"}, BadTls),
        ({"tls_cert": Path(__file__), "tls_key": Path(__file__)}, BadTls),
        ({"public_url": "http://gw.example"}, BadServerSetting),
        ({"public_url": "gw.example"}, BadServerSetting),
        ({"public_url": "https://gw.example/path"}, BadServerSetting),
        ({"public_url": "https://user@gw.example"}, BadServerSetting),
        ({"origins": ("friend.example",)}, BadServerSetting),
        ({"origins": ("*",)}, BadServerSetting),
        ({"trusted_proxies": ("proxy.example",)}, BadServerSetting),
        ({"trusted_proxies": ("*",)}, BadServerSetting),
        ({"port": 65536}, BadServerSetting),
        ({"port": -1}, BadServerSetting),
        ({"host": "no such host"}, BadServerSetting),
        ({"host": "a" * 300}, BadServerSetting),
    ],
)
def test_impossible_setting_is_reported(setting: dict[str, Any], kind: type[CannotServe]) -> None:
    with pytest.raises(kind) as wrong:
        check_binding(Binding(**setting))
    assert wrong.value.exit_code == 2


def test_a_port_in_use_is_named() -> None:
    taken = open_sockets(Binding(port=0))
    taken[0].listen()
    port = taken[0].getsockname()[1]
    with pytest.raises(PortInUse, match=f"127.0.0.1:{port} is in use"):
        open_sockets(Binding(port=port))
    for listener in taken:
        listener.close()


def test_address_of_another_machine_is_reported() -> None:
    with pytest.raises(BadServerSetting, match=r"192\.0\.2\.1"):
        open_sockets(Binding(host="192.0.2.1", port=0, insecure_lan=True))


def test_a_name_is_bound_on_all_its_addresses_with_one_port() -> None:
    listeners = open_sockets(Binding(host="localhost", port=0))
    assert len({listener.getsockname()[1] for listener in listeners}) == 1
    for listener in listeners:
        listener.close()


def test_allowed_origins_have_port_names_public_url_and_configured_origins() -> None:
    binding = Binding(
        host="localhost", port=0, public_url="https://GW.example:8443/", origins=("https://friend.example",)
    )
    listeners = open_sockets(binding)
    allowed = allowed_origins(binding, listeners)
    assert allowed.ports == {listeners[0].getsockname()[1]}
    assert allowed.names == {"localhost"}
    assert allowed.public == Origin("https", "gw.example", 8443)
    assert allowed.origins == {Origin("https", "friend.example", 443)}
    for listener in listeners:
        listener.close()


def test_wildcard_address_is_not_an_allowed_name() -> None:
    binding = Binding(host="0.0.0.0", port=0, insecure_lan=True)
    listeners = open_sockets(binding)
    assert allowed_origins(binding, listeners).names == frozenset()
    assert urls(binding, listeners) == (f"http://127.0.0.1:{listeners[0].getsockname()[1]}",)
    for listener in listeners:
        listener.close()


def test_url_of_an_ipv6_address_has_brackets() -> None:
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", 0))
        port = listener.getsockname()[1]
        assert urls(Binding(host="::1", **PAIR), [listener]) == (f"https://[::1]:{port}",)


def test_small_messages_are_sent_at_once() -> None:
    """asyncio disables Nagle's algorithm only for sockets whose `proto` is TCP."""
    listeners = open_sockets(Binding(port=0))
    try:
        assert [listener.proto for listener in listeners] == [socket.IPPROTO_TCP]
    finally:
        for listener in listeners:
            listener.close()
