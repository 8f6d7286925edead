"""Connections to a gateway: TLS, sockets, and the errors of what it refuses."""

import ssl

import httpx2
import msgspec
import websockets.asyncio.client as websocket
from websockets.typing import Subprotocol

from fairlead.client.endpoint import GatewayEndpoint
from fairlead.client.errors import ClientError, Unreachable, from_status


class ErrorDetails(msgspec.Struct):
    """What the gateway says about a call or a frame that it refused."""

    code: str = ""
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: ErrorDetails


def tls_context(endpoint: GatewayEndpoint) -> ssl.SSLContext | None:
    """Return the TLS context; None without TLS. SSL_CERT_FILE names additional certificate authorities."""
    if not endpoint.url.startswith("https:"):
        return None
    context = httpx2.create_ssl_context()
    if endpoint.own and endpoint.local:
        # The certificate is for the host name that other machines use. The process that listens on this port wrote
        # its address into a folder that only this user can write, and no network lies between.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def unreachable(url: str, error: Exception) -> Unreachable:
    why = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in why:
        todo = "Name the file of the authority that signed it in SSL_CERT_FILE."
        return Unreachable(f"The certificate of {url} is not trusted ({why}). {todo}")
    return Unreachable(f"No gateway answers at {url} ({why}). Start one with: fairlead serve")


def response_error(status: int, body: bytes | bytearray | None, url: str) -> ClientError:
    """Return the error of a response without success, also to the handshake of a socket."""
    try:
        error = msgspec.json.decode(body or b"", type=_ErrorBody).error
    except msgspec.DecodeError:
        return from_status(status, f"{url} answered {status}: is this a Fairlead gateway?")
    todo = " Give a token of this gateway with FAIRLEAD_TOKEN or --token." if status == 401 else ""
    return from_status(status, error.message + todo, error.code)


def open_socket(endpoint: GatewayEndpoint, path: str, *subprotocols: str) -> websocket.connect:
    secure = tls_context(endpoint)
    rest = endpoint.url.partition("://")[2]
    return websocket.connect(
        f"{'wss' if secure else 'ws'}://{rest}{path}",
        additional_headers={"Authorization": f"Bearer {endpoint.token}"},
        subprotocols=[Subprotocol(name) for name in subprotocols] or None,
        ssl=secure,
        max_size=None,
        compression=None,
        close_timeout=1.0,
        proxy=None if endpoint.local else True,
    )
