"""Hosts and origins: how they are read, and which are our own. Pure, and strict: what is odd is not ours.

DNS rebinding makes a browser talk to us under a foreign name, so a name counts only if it is on the list. An
address counts if it is the very one that the connection came in on: no name was resolved to get there.
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
    """A host in its one spelling (lower case, IPv6 compressed and without brackets) and the port, if it was said."""

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
    """`host[:port]` as the Host header has it; None if it is not exactly that. A trailing dot is odd, so refused."""
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
    """An Origin header; None for `null` and whatever is no http origin. Browsers write it in lower case."""
    scheme, mark, rest = text.partition("://")
    if not mark or rest != rest.lower():
        return None
    authority = parse_authority(rest)
    if authority is None or scheme not in ("http", "https"):
        return None
    name: Literal["http", "https"] = "https" if scheme == "https" else "http"
    return Origin(name, authority.host, authority.port or _DEFAULT_PORTS[name])


def address(text: str) -> str:
    """An address of a socket in its one spelling: an IPv4 address that came in on an IPv6 socket is itself."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)


class AllowedOrigins(msgspec.Struct, frozen=True, kw_only=True):
    """Where we live. `names` are the names we were bound to, `origins` pages elsewhere that may open sockets."""

    ports: frozenset[int]
    names: frozenset[str] = frozenset()
    public: Origin | None = None
    origins: frozenset[Origin] = frozenset()

    def owns_host(self, given: Authority, *, local: str, secure: bool) -> bool:
        if self.public is not None and given.host == self.public.host:
            # A proxy may speak plain HTTP to us; the name's port is then still that of the public URL.
            default = _DEFAULT_PORTS[self.public.scheme]
            if (given.port or default) == self.public.port:
                return True
        return self._bound_here(given.host, given.port or _DEFAULT_PORTS["https" if secure else "http"], local)

    def owns_origin(self, given: Origin, *, local: str, secure: bool) -> bool:
        """Ours is the public origin, and what this very connection was opened to: with its scheme, not another."""
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
    """Whether an address is one that no other machine can reach."""
    found = address(text)
    return found != "" and ip_address(found).is_loopback
