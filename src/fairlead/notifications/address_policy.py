"""The addresses to which notices may be sent. Pure.

A person enters a host name, but the network decides what it resolves to: the check applies to the address, and the
connection goes to the checked address.
"""

import ipaddress
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from fairlead.model.errors import BadRequest
from fairlead.notifications.api.targets import TargetRefused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL6 = ipaddress.IPv6Network("2000::/3")
"""The range of global unicast IPv6 addresses. Everything else is local, reserved, or unassigned."""
_CLOSED = tuple(
    ipaddress.ip_network(text)
    for text in (
        # IANA's registry of special-purpose addresses, IPv4: all that is not globally reachable, and multicast.
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # And of IPv6 what lies within 2000::/3: protocol assignments, documentation.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
"""A fixed list in place of `is_global`, whose result depends on the version of Python."""
LONGEST = 2000


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse the addresses and networks of the settings. Raises BadRequest naming the invalid one."""
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise BadRequest(
                f"notify_private: {text!r} is neither an address nor a network, such as 10.0.0.0/8.", given=text
            ) from None
    return tuple(found)


def target_url(text: str) -> SplitResult:
    """Parse a target's URL. Raises TargetRefused if it cannot be called or would reveal a password or a fragment."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise refused(text, "it is not a URL") from None
    if url.scheme not in ("https", "http") or not url.hostname or port == 0 or len(text) > LONGEST:
        raise refused(text, "a URL with https:// and a host is expected")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise refused(text, "it has characters that no URL has")
    if url.username is not None or url.password is not None or url.fragment:
        raise refused(text, "it has a name, a password or a fragment")
    return url


def check_address(url: str, host: str, address: str, private: Sequence[Network], *, secure: bool) -> None:
    """Allow public addresses over https, and addresses that the settings allow also over http. Raises TargetRefused."""
    # The scope of a link-local address (fe80::1%eth0) is not part of it.
    bare = ipaddress.ip_address(address.partition("%")[0])
    inner = _inner(bare)
    if any(one in network for network in private for one in {bare, inner} if one.version == network.version):
        return
    if not _is_public(inner):
        why = "which is not a public address (the setting notify_private can allow it)"
        raise refused(url, f"{host} is {address}, {why}")
    if not secure:
        raise refused(url, "https:// is expected for a public address")


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL6:
        return False
    return not any(address in network for network in _CLOSED if network.version == address.version)


def _inner(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one, so that wrapping an address does not bypass the check."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)


def refused(url: str, why: str) -> TargetRefused:
    return TargetRefused(f"Fairlead does not send notifications to {url[:200]}: {why}.", url=url[:200])
