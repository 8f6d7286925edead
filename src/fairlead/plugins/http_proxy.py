"""A page's call to its plugin's server: one HTTP request to this machine, with no client header but the content type.

Bounded in time and in bytes; redirects are not followed.
"""

from typing import Final
from urllib.parse import quote

from fairlead.model.web.requests import Response
from fairlead.plugins.api import CallPlugin, PluginFailed
from fairlead.plugins.ws_proxy import HOST
from fairlead.system.clock import Clock, within

CALL_SECONDS: Final = 60.0
_PLAIN: Final = "application/octet-stream"


async def call_plugin(wanted: CallPlugin, port: int, clock: Clock, most: int) -> Response:
    """Send the request. Raises PluginFailed without an answer, or for one with more than `most` bytes."""
    import httpx2  # late: most gateways have no plugins

    query = f"?{wanted.query}" if wanted.query else ""
    url = f"http://{HOST}:{port}/{quote(wanted.path)}{query}"
    try:
        return await within(clock, CALL_SECONDS, _answer(wanted, url, most))
    except TimeoutError:
        raise PluginFailed(wanted.name, f"did not answer within {CALL_SECONDS:g} seconds") from None
    except httpx2.HTTPError as error:
        raise PluginFailed(wanted.name, f"does not answer on its port {port} ({error})") from error


async def _answer(wanted: CallPlugin, url: str, most: int) -> Response:
    import httpx2

    headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "fairlead"}
    if wanted.body:
        headers["content-type"] = wanted.content_type
    # The connection is not encrypted, so there is nothing to verify; and HTTP proxies are for external hosts.
    async with (
        httpx2.AsyncClient(trust_env=False, verify=False, timeout=None) as http,
        http.stream(wanted.method, url, content=wanted.body or None, headers=headers) as answer,
    ):
        body = bytearray()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > most:
                raise PluginFailed(wanted.name, f"answers with more than {most} bytes")
        kind = answer.headers.get("content-type", _PLAIN)
        return Response(status=answer.status_code, body=bytes(body), content_type=kind)
