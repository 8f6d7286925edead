"""Listening sockets: the settings are checked before anything starts, so that a gateway is never open by mistake."""

import errno
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Final

import msgspec

from fairlead.auth.origins import AllowedOrigins, Origin, is_loopback, parse_authority, parse_origin
from fairlead.server.errors import BadServerSetting, BadTls, PortInUse, UnsafeBind

_UNSENT: Final = 128 << 10
"""Bytes that the kernel buffers before it can send them; bytes in flight come on top."""
_WILDCARDS: Final = ("0.0.0.0", "::", "")


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of `fairlead serve` that decide who can reach it. `origins`: other origins whose pages may use
    it."""

    host: str = "127.0.0.1"
    port: int = 8787
    tls_cert: Path | None = None
    tls_key: Path | None = None
    public_url: str = ""
    insecure_lan: bool = False
    trusted_proxies: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


def check_binding(binding: Binding) -> None:
    """Raise UnsafeBind, BadTls or BadServerSetting; each message says what to do."""
    if (binding.tls_cert is None) != (binding.tls_key is None):
        raise BadTls("--tls-cert and --tls-key go together.")
    if binding.tls_cert is not None and binding.tls_key is not None:
        _check_tls(binding.tls_cert, binding.tls_key)
    public = public_origin(binding)
    invited_origins(binding)
    for proxy in binding.trusted_proxies:
        try:
            ip_network(proxy, strict=False)
        except ValueError:
            raise BadServerSetting(
                f"--trusted-proxy {proxy}: an address or a network is expected.", given=proxy
            ) from None
    if not 0 <= binding.port <= 65535:
        raise BadServerSetting(f"--port {binding.port}: a number from 0 to 65535 is expected.", given=binding.port)
    protected = binding.tls_cert is not None or public is not None or binding.insecure_lan
    if not protected and not all(is_loopback(address) for _, address in _addresses(binding)):
        raise UnsafeBind(binding.host)


def public_origin(binding: Binding) -> Origin | None:
    if not binding.public_url:
        return None
    found = parse_origin(binding.public_url.removesuffix("/").lower())
    if found is None or found.scheme != "https":
        raise BadServerSetting(
            f"--public-url {binding.public_url}: https://name[:port] is expected.", given=binding.public_url
        )
    return found


def invited_origins(binding: Binding) -> frozenset[Origin]:
    found = []
    for text in binding.origins:
        origin = parse_origin(text)
        if origin is None:
            raise BadServerSetting(f"{text} is not an origin: http(s)://name[:port] is expected.", given=text)
        found.append(origin)
    return frozenset(found)


def open_sockets(binding: Binding) -> list[socket.socket]:
    """Return bound sockets, not yet listening. A name with several addresses is bound to all, on one port."""
    check_binding(binding)
    opened: list[socket.socket] = []
    port = binding.port
    try:
        for family, address in _addresses(binding):
            # With the protocol number asyncio sends small messages at once; without it they wait for an ACK.
            listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            opened.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                # Accepted sockets inherit it. Otherwise the kernel buffers megabytes for each peer that does not read,
                # and a few hundred of them stop every other connection of the machine.
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
            if family == socket.AF_INET6:
                # `::` means IPv6 alone: two sockets never share an address meant for one of them.
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address, port))
            port = listener.getsockname()[1]
    except OSError as error:
        for listener in opened:
            listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(binding.host, port) from None
        raise BadServerSetting(f"{binding.host}:{port} cannot be bound: {error.strerror}.", host=binding.host) from None
    return opened


def allowed_origins(binding: Binding, sockets: Sequence[socket.socket]) -> AllowedOrigins:
    """Return the host names, ports and origins that the gate accepts for these sockets."""
    name = parse_authority(binding.host)
    return AllowedOrigins(
        ports=frozenset(listener.getsockname()[1] for listener in sockets),
        names=frozenset({name.host}) if name is not None and binding.host not in _WILDCARDS else frozenset(),
        public=public_origin(binding),
        origins=invited_origins(binding),
    )


def urls(binding: Binding, sockets: Sequence[socket.socket]) -> tuple[str, ...]:
    """Return the URLs that reach the server from this machine, for people."""
    scheme = "http" if binding.tls_cert is None else "https"
    found = []
    for listener in sockets:
        address, port = listener.getsockname()[:2]
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
        found.append(f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}")
    return tuple(found)


def _addresses(binding: Binding) -> list[tuple[socket.AddressFamily, str]]:
    if binding.host == "":
        return [(socket.AF_INET, "0.0.0.0")]
    try:
        found = socket.getaddrinfo(binding.host, binding.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise BadServerSetting(f"--host {binding.host}: this address does not exist.", given=binding.host) from None
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _check_tls(cert: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except FileNotFoundError:
        missing = cert if not cert.exists() else key
        raise BadTls(f"{missing} does not exist.", path=str(missing)) from None
    except (OSError, ssl.SSLError) as error:
        raise BadTls(f"{cert} and {key} cannot be used: {error.strerror or error}.") from None
