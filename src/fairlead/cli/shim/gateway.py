"""The shim's calls to the gateway: it opens the session, offers the process, and connects.

Only the standard library for the calls: the shim starts with every run of the CLI, and the HTTP client of the other
commands takes a quarter of a second to import.
"""

import http.client
import ssl
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from fairlead.cli.shim.invocation import Invocation
from fairlead.client.endpoint import GatewayEndpoint
from fairlead.client.errors import Unreachable, from_status
from fairlead.model.agents import LentProcess, ShimInvitation
from fairlead.model.commands import Reply

T = TypeVar("T")

MESSAGE_BYTES: Final = 80 << 20
"""The largest message that we accept: more than the gateway's largest line for the CLI."""


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


class ShimGateway:
    """`seconds`: how long it may take to answer."""

    def __init__(self, endpoint: GatewayEndpoint, seconds: float) -> None:
        self.endpoint = endpoint
        self._seconds = seconds

    def open_session(self, invocation: Invocation, session: str, cwd: str) -> bool:
        """Make sure that the session exists; return whether it is new. Raises ClientError."""
        if invocation.resumes and self._exists(session):
            return False
        resume = session if invocation.resumes else ""
        body = {"session": session, "cwd": cwd, "agent": "claude", "settings": invocation.settings, "resume": resume}
        return not self._call("POST", "/v1/sessions", Reply, body).repeated

    def delete_session(self, session: str) -> None:
        """Raises ClientError."""
        self._call("DELETE", f"/v1/sessions/{session}", Reply, None)

    def _exists(self, session: str) -> bool:
        status, _ = self._exchange("GET", f"/v1/sessions/{session}", None)
        return status == http.client.OK

    def attach(self, session: str, process: LentProcess) -> ShimInvitation:
        """Offer the process. Raises ClientError."""
        body = {
            "version": process.version,
            "agent_session": process.agent_session,
            "pid": process.pid if self.endpoint.local else 0,
            "started": process.started if self.endpoint.local else "",
        }
        return self._call("POST", f"/v1/sessions/{session}/shim", ShimInvitation, body)

    def socket_url(self, invitation: ShimInvitation) -> str:
        """The address of the invitation as we reach it: the gateway knows only its own."""
        return self.endpoint.url.replace("http", "ws", 1) + urlsplit(invitation.url).path

    def _call(self, method: str, path: str, kind: type[T], body: Any) -> T:
        status, data = self._exchange(method, path, body)
        try:
            if status < http.client.BAD_REQUEST:
                return msgspec.json.decode(data, type=kind)
            error = msgspec.json.decode(data, type=_ErrorBody).error
        except msgspec.DecodeError:
            raise Unreachable(f"{self.endpoint.url} does not answer like a gateway.") from None
        raise from_status(status, error.message or f"The gateway answered with {status}.", error.code)

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        parts = urlsplit(self.endpoint.url)
        host, port = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=self._seconds, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=self._seconds)
        )
        headers = {"authorization": f"Bearer {self.endpoint.token}", "content-type": "application/json"}
        try:
            content = None if body is None else msgspec.json.encode(body)
            connection.request(method, parts.path + path, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
            raise Unreachable(f"No gateway answers at {self.endpoint.url} ({problem}).") from error
        finally:
            connection.close()
