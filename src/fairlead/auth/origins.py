"""Hosts and origins: parses them and decides which are our own. Pure, and strict: an unusual form is not ours.

DNS rebinding makes a browser talk to us under a foreign name, so a name counts only if it is on the list. An
address counts if the connection came in on exactly that address: no name was resolved to get there.
"""

import re
from ipaddress import IPv6Address, ip_address
from typing import Final, Literal

import msgspec

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Authority(msgspec.Struct, frozen=True):
    """A host in canonical form (lower case, IPv6 compressed and without brackets) and the port, if one was given."""

    host: str
    port: int | None


class Origin(msgspec.Struct, frozen=True):
    scheme: Literal["http", "https"]
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}")


def parse_authority(text: str) -> Authority | None:
    """Parse `host[:port]` as in the Host header; None for any other form, including a trailing dot."""
    if text.startswith("["):
        literal, bracket, rest = text[1:].partition("]")
        host = _ipv6(literal)
        if not bracket or host is None or (rest and not rest.startswith(":")):
            return None
        colon, port = rest[:1], rest[1:]
    else:
        name, colon, port = text.lower().partition(":")
        if len(name) > 253 or not _NAME.fullmatch(name):
            return None
        host = name
    if not colon:
        return Authority(host, None)
    if not _PORT.fullmatch(port) or int(port) > 65535:
        return None
    return Authority(host, int(port))


def parse_origin(text: str) -> Origin | None:
    """Parse an Origin header; None for `null` and everything but http(s) origins. Browsers send it in lower case."""
    scheme, mark, rest = text.partition("://")
    if not mark or rest != rest.lower():
        return None
    authority = parse_authority(rest)
    if authority is None or scheme not in ("http", "https"):
        return None
    name: Literal["http", "https"] = "https" if scheme == "https" else "http"
    return Origin(name, authority.host, authority.port or _DEFAULT_PORTS[name])


def address(text: str) -> str:
    """Return a socket's address in canonical form; an IPv4 address on an IPv6 socket becomes plain IPv4."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)


class AllowedOrigins(msgspec.Struct, frozen=True, kw_only=True):
    """Our own hosts and origins. `names` are the names we are bound to, `origins` other origins whose pages may use
    the gateway."""

    ports: frozenset[int]
    names: frozenset[str] = frozenset()
    public: Origin | None = None
    origins: frozenset[Origin] = frozenset()

    def owns_host(self, given: Authority, *, local: str, secure: bool) -> bool:
        if self.public is not None and given.host == self.public.host:
            # A proxy may use plain HTTP to us; the port in Host is then still the one of the public URL.
            default = _DEFAULT_PORTS[self.public.scheme]
            if (given.port or default) == self.public.port:
                return True
        return self._bound_here(given.host, given.port or _DEFAULT_PORTS["https" if secure else "http"], local)

    def owns_origin(self, given: Origin, *, local: str, secure: bool) -> bool:
        """Return whether the origin is the public one, or the one this connection was opened to, scheme included."""
        scheme = "https" if secure else "http"
        return given == self.public or (given.scheme == scheme and self._bound_here(given.host, given.port, local))

    def _bound_here(self, host: str, port: int, local: str) -> bool:
        if port not in self.ports:
            return False
        own = address(local)
        return host in _LOOPBACK or host in self.names or (own != "" and host == own)


def _ipv6(text: str) -> str | None:
    if "%" in text:
        return None
    try:
        return str(IPv6Address(text))
    except ValueError:
        return None


def is_loopback(text: str) -> bool:
    """Return whether no other machine can reach an address."""
    found = address(text)
    return found != "" and ip_address(found).is_loopback
