"""One HTTP request to a target: to the checked address, without redirects, with a timeout."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from fairlead.notifications.address_policy import Network, check_address, refused, target_url
from fairlead.notifications.api.targets import TargetFailed
from fairlead.system.clock import Clock, within

SECONDS: Final = 10.0

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


async def resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class HttpClient:
    """`private`: networks that may be called although they are not public."""

    def __init__(self, clock: Clock, private: Sequence[Network] = (), resolver: Resolver = resolve) -> None:
        self._clock = clock
        self._private = tuple(private)
        self._resolve = resolver

    async def check(self, url: str) -> str:
        """The address to connect to. Every address of the name must be allowed, because the next DNS answer may have
        another order. Raises TargetRefused."""
        parts = target_url(url)
        host = parts.hostname or ""
        secure = parts.scheme == "https"
        try:
            found = await within(self._clock, SECONDS, self._resolve(host, parts.port or (443 if secure else 80)))
        except (OSError, UnicodeError, TimeoutError):
            found = ()
        if not found:
            raise refused(url, f"{host} has no address")
        for address in found:
            check_address(url, host, address, self._private, secure=secure)
        return found[0]

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Send a request and return the response's status. Raises TargetRefused; TargetFailed without a response."""
        import httpx2  # late: most gateways have no targets

        address = await self.check(url)
        parts = target_url(url)
        literal = f"[{address}]" if ":" in address else address
        port = f":{parts.port}" if parts.port is not None else ""
        aimed = parts._replace(netloc=f"{literal}{port}").geturl()
        all_headers = {"host": parts.netloc, "user-agent": "fairlead", "content-type": "application/json", **headers}
        try:
            return await within(self._clock, SECONDS, self._send(aimed, body, all_headers, parts.hostname or ""))
        except (httpx2.HTTPError, TimeoutError) as error:
            why = "it did not answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise TargetFailed(f"{parts.hostname} could not be reached: {why}.", url=url[:200]) from None

    async def _send(self, url: str, body: bytes, headers: Mapping[str, str], host: str) -> int:
        import httpx2

        # Loading the certificate authorities takes tens of milliseconds, which the event loop does not have.
        secure = url.startswith("https:")
        tls = await asyncio.to_thread(httpx2.create_ssl_context, trust_env=False) if secure else False
        # A new client for each request: targets share no state, and no connection stays open for the next hour.
        async with httpx2.AsyncClient(verify=tls, trust_env=False, follow_redirects=False, timeout=None) as client:
            # TLS verifies the host name, whatever the address.
            request = client.build_request(
                "POST", url, content=body, headers=headers, extensions={"sni_hostname": host}
            )
            response = await client.send(request, stream=True)
            await response.aclose()
            return response.status_code
