"""Hosts and origins are parsed strictly: an odd one is not ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.auth.origins import AllowedOrigins, Authority, Origin, address, is_loopback, parse_authority, parse_origin

ALLOWED = AllowedOrigins(ports=frozenset({8787}))
PUBLIC = AllowedOrigins(
    ports=frozenset({8787}),
    public=Origin("https", "gw.example", 443),
    origins=frozenset({Origin("https", "friend.example", 443)}),
)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost", "localhost", None),
        ("LOCALHOST:8787", "localhost", 8787),
        ("127.0.0.1:1", "127.0.0.1", 1),
        ("[::1]:8787", "::1", 8787),
        ("[0:0:0:0:0:0:0:1]", "::1", None),
        ("[::FFFF:127.0.0.1]", "::ffff:127.0.0.1", None),
        ("a-b.example:65535", "a-b.example", 65535),
    ],
)
def test_an_authority_has_one_spelling(text: str, host: str, port: int | None) -> None:
    found = parse_authority(text)
    assert found is not None
    assert found.port == port
    assert address(found.host) == address(host) if ":" in host else found.host == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8787",
        "localhost.",
        "localhost.:8787",
        "localhost:",
        "localhost:0",
        "localhost:08787",
        "localhost:65536",
        "localhost:99999999999999999999",
        "localhost:8787:8787",
        "localhost:8787/",
        "localhost:+8787",
        "localhost:８７８７",
        "user@localhost:8787",
        "local host",
        " localhost",
        "localhost ",
        "localhost\t",
        "localhost,evil",
        "-evil",
        "::1",
        "[::1",
        "[::1]x",
        "[::1]8787",
        "[::1%25lo]",
        "[fe80::1%lo]:8787",
        "[127.0.0.1]",
        "[]",
        "localhost\x00",
        "löcalhost",
        "a" * 254,
    ],
)
def test_malformed_authorities_are_rejected(text: str) -> None:
    assert parse_authority(text) is None


@given(st.text(max_size=40))
def test_reading_an_authority_never_fails(text: str) -> None:
    parse_authority(text)
    parse_origin(text)
    address(text)


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "",
        "http://",
        "localhost:8787",
        "http://localhost:8787/",
        "http://localhost:8787?",
        "HTTP://localhost:8787",
        "http://LOCALHOST:8787",
        "ws://localhost:8787",
        "file://localhost",
        "chrome-extension://abcdef",
        "http://user@localhost:8787",
        "http://localhost:8787 http://localhost:8787",
        "http//localhost",
    ],
)
def test_malformed_origins_are_rejected(text: str) -> None:
    assert parse_origin(text) is None


def test_an_origin_is_spelled_without_its_default_port() -> None:
    for text in ("http://localhost", "https://a.example", "https://a.example:8443", "http://[::1]:8787"):
        assert str(parse_origin(text)) == text
    assert parse_origin("https://a.example:443") == parse_origin("https://a.example")


def owns(allowed: AllowedOrigins, host: str, local: str = "127.0.0.1", secure: bool = False) -> bool:
    found = parse_authority(host)
    return found is not None and allowed.owns_host(found, local=local, secure=secure)


def test_loopback_names_with_our_port_are_ours() -> None:
    for host in ("localhost:8787", "LocalHost:8787", "127.0.0.1:8787", "[::1]:8787"):
        assert owns(ALLOWED, host)
    for host in ("localhost", "localhost:80", "localhost:8788", "127.0.0.1", "[::1]:1"):
        assert not owns(ALLOWED, host)


def test_default_port_may_be_omitted() -> None:
    plain = AllowedOrigins(ports=frozenset({80}))
    assert owns(plain, "localhost") and owns(plain, "localhost:80")
    assert not owns(plain, "localhost", secure=True)
    assert owns(AllowedOrigins(ports=frozenset({443})), "localhost", secure=True)


@pytest.mark.parametrize(
    "host",
    [
        "attacker.test:8787",
        "127.0.0.1.nip.io:8787",
        "localhost.evil:8787",
        "evil.localhost:8787",
        "127.1:8787",
        "2130706433:8787",
        "0x7f000001:8787",
        "0177.0.0.1:8787",
        "127.0.0.2:8787",
        "0.0.0.0:8787",
        "[::ffff:127.0.0.1]:8787",
        "[::]:8787",
        "192.168.1.5:8787",
    ],
)
def test_other_names_and_other_forms_of_addresses_are_not_ours(host: str) -> None:
    assert not owns(ALLOWED, host)


def test_local_address_of_the_connection_is_ours() -> None:
    assert owns(ALLOWED, "192.168.1.5:8787", local="192.168.1.5")
    assert owns(ALLOWED, "192.168.1.5:8787", local="::ffff:192.168.1.5")
    assert owns(ALLOWED, "[fe80::1]:8787", local="fe80::1%eth0")
    assert not owns(ALLOWED, "192.168.1.6:8787", local="192.168.1.5")
    assert not owns(ALLOWED, "attacker.test:8787", local="192.168.1.5")
    assert not owns(ALLOWED, "attacker.test:8787", local="")


def test_the_public_name_is_accepted_only_with_its_port() -> None:
    assert owns(PUBLIC, "gw.example") and owns(PUBLIC, "GW.example:443")
    assert not owns(PUBLIC, "gw.example:8787")
    assert not owns(PUBLIC, "gw.example:80")
    assert owns(PUBLIC, "127.0.0.1:8787")


def test_an_origin_is_ours_with_its_scheme_only() -> None:
    def owned(allowed: AllowedOrigins, text: str, secure: bool = False) -> bool:
        origin = parse_origin(text)
        return origin is not None and allowed.owns_origin(origin, local="127.0.0.1", secure=secure)

    assert owned(ALLOWED, "http://localhost:8787") and owned(ALLOWED, "http://[::1]:8787")
    assert not owned(ALLOWED, "https://localhost:8787")
    assert owned(ALLOWED, "https://localhost:8787", secure=True)
    for odd in ("http://localhost", "http://localhost:3000", "http://localhost.evil:8787", "http://evil:8787"):
        assert not owned(ALLOWED, odd)
    assert owned(PUBLIC, "https://gw.example")
    for odd in ("http://gw.example", "http://gw.example:443", "https://gw.example:8787", "http://gw.example:8787"):
        assert not owned(PUBLIC, odd)
    assert not owned(PUBLIC, "https://friend.example")


def test_loopback_addresses() -> None:
    assert all(is_loopback(text) for text in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"))
    assert not any(is_loopback(text) for text in ("0.0.0.0", "::", "10.0.0.1", "", "localhost"))


def test_authorities_compare_by_value() -> None:
    assert Authority("a", 1) == parse_authority("A:1")
