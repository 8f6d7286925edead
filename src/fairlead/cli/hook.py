"""`fairlead hook EVENT`: the hook command of the CLI. It sends its stdin to the gateway and the answer to stdout.

Only the standard library is used, and little of it (http.client alone would double the time): this runs before every
tool. Proxies in the environment variables do not apply to this machine. Without an answer the tool is denied, whatever
went wrong: CLIs let a tool run when its hook fails (measured: 2.1.37, 2.1.120).
"""

import contextlib
import json
import os
import socket
import sys
import time
from typing import BinaryIO, Final
from urllib.parse import urlsplit

URL: Final = "FAIRLEAD_HOOK_URL"
TOKEN: Final = "FAIRLEAD_HOOK_TOKEN"
CERTIFICATE: Final = "FAIRLEAD_HOOK_CERT"
DELIVERY: Final = "fairlead-delivery"
DECIDING: Final = "pre-tool-use"
STARTING: Final = "session-start"

MOST_BYTES: Final = 64 << 20
"""Limit of a hook's input; the gateway accepts no more."""
LONGEST_S: Final = 2_140_000.0
"""The CLI gives up after 2 147 000 s, and then the tool runs: this limit ends before."""
PATIENCE_S: Final = 3600.0
"""How long the gateway may be away, for example during an upgrade, before a tool is denied. A CLI that no other gateway
takes over is ended before that."""
COURTESY_S: Final = 5.0
"""The same for events whose answer does not matter."""
NETWORK_S: Final = 30.0
"""Timeout for connecting, and for sending or receiving data. It does not limit the wait for a decision."""
LOOK_S: Final = 2.0
"""How often a waiting hook checks that the CLI that started it still runs."""
BLOCKED: Final = 2
"""The exit code that blocks a tool when no answer can be given."""


class HookFailed(Exception):
    """No answer, and a retry does not help; the text is for a person."""


class GatewayUnreachable(Exception):
    """No answer for now: the gateway is away or still starting."""


class ParentGone(Exception):
    """The parent process has ended: nothing waits for the answer."""


class HookGateway:
    """The gateway's address and the credentials for it."""

    def __init__(self, url: str, token: str, certificate: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HookFailed(f"{url[:200]!r} is not the address of a gateway.")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._path = parts.path.rstrip("/")
        self._certificate = certificate
        self._headers = {
            "host": parts.netloc,
            "connection": "close",
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            # The same at every attempt: a request that was answered already is not put to a person again.
            DELIVERY: os.urandom(16).hex(),
        }
        self._parent = os.getppid()

    def ask(self, event: str, given: bytes, patience: float, longest: float = LONGEST_S) -> bytes:
        """Send an event and return the answer. Raises HookFailed, ParentGone.

        Retries GatewayUnreachable for `patience` seconds; an attempt that lasted longer than that restarts the period.
        """
        end = time.monotonic() + longest
        failing, delay = 0.0, 0.1
        while True:
            begun = time.monotonic()
            try:
                return self._ask_once(f"{self._path}/{event}", given, end)
            except (GatewayUnreachable, OSError) as error:
                now = time.monotonic()
                if now - begun > patience or not failing:
                    failing, delay = now, 0.1
                if now - failing >= patience or now >= end:
                    raise HookFailed(f"The gateway does not answer: {str(error) or type(error).__name__}.") from error
            self._check_parent()
            time.sleep(delay)
            delay = min(2 * delay, 2.0)

    def _ask_once(self, path: str, given: bytes, end: float) -> bytes:
        head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in self._headers.items())
        with self._connect() as connection:
            connection.sendall(f"{head}content-length: {len(given)}\r\n\r\n".encode("latin-1") + given)
            first = self._first(connection, end)
            status, body = _response(first + b"".join(iter(lambda: connection.recv(1 << 16), b"")))
        if status == 200:
            return body
        if status >= 500 or status in (408, 429):
            raise GatewayUnreachable(_error_message(body) or f"status {status}")
        raise HookFailed(f"The gateway refused: {_error_message(body) or status}")

    def _first(self, connection: socket.socket, end: float) -> bytes:
        """Wait for the first bytes of the answer: a person may take hours to decide."""
        connection.settimeout(LOOK_S)
        while True:
            try:
                first = connection.recv(1 << 16)
            except TimeoutError:
                self._check_parent()
                if time.monotonic() >= end:
                    raise HookFailed("The time to decide about this call is over.") from None
            else:
                connection.settimeout(NETWORK_S)
                return first

    def _connect(self) -> socket.socket:
        connection = socket.create_connection((self._host, self._port), NETWORK_S)
        if not self._secure:
            return connection
        import ssl

        context = ssl.create_default_context(cafile=self._certificate or None)
        if self._certificate:
            # The gateway's own certificate, given by its file: a check of the host name would add nothing.
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context.wrap_socket(connection, server_hostname=self._host)

    def _check_parent(self) -> None:
        if os.getppid() != self._parent:
            raise ParentGone


def _response(data: bytes) -> tuple[int, bytes]:
    """Return status and body of an answer of our gateway, which always has a content-length.

    Raises GatewayUnreachable if the answer is incomplete."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ", 2)
    lengths = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("content-length:")]
    if len(parts) < 2 or not parts[1].isdigit() or lengths != [str(len(body))]:
        raise GatewayUnreachable("the connection broke")
    return int(parts[1]), body


def denial(reason: str) -> bytes:
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    return json.dumps({"hookSpecificOutput": output}).encode()


def run(event: str, given: BinaryIO, taken: BinaryIO, *, patience: float = PATIENCE_S) -> int:
    """Run one hook. Return the exit code: 0, or the one that blocks a tool."""
    try:
        if event == STARTING and URL not in os.environ:
            _announce(given)
            return 0
        answer = _answer(event, given, patience if event == DECIDING else min(patience, COURTESY_S))
    except ParentGone:
        return BLOCKED
    except Exception as error:
        if event != DECIDING:
            return 0
        answer = denial(f"Fairlead could not decide about this call. {error}")
    try:
        taken.write(answer)
        taken.flush()
    except OSError:
        return BLOCKED
    return 0


def _answer(event: str, given: BinaryIO, patience: float) -> bytes:
    url, token = os.environ.get(URL, ""), os.environ.get(TOKEN, "")
    if not url or not token:
        raise HookFailed(f"{URL} and {TOKEN} are not set: this hook is for sessions that the gateway starts.")
    gateway = HookGateway(url, token, os.environ.get(CERTIFICATE, ""))
    answer = gateway.ask(event, _read(given), patience)
    if not isinstance(json.loads(answer), dict):
        raise HookFailed("The gateway's answer is invalid.")
    return answer


def _read(given: BinaryIO) -> bytes:
    body = given.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise HookFailed(f"The call is larger than {MOST_BYTES} bytes.")
    return body


def _announce(given: BinaryIO) -> None:
    """Report the session of a CLI that a person started. This runs once per session, so it may be slower."""
    from fairlead.client.endpoint import EndpointOptions

    endpoint = EndpointOptions(os.environ.get("FAIRLEAD_URL"), os.environ.get("FAIRLEAD_TOKEN")).find()
    HookGateway(f"{endpoint.url}/v1/hooks", endpoint.token).ask(STARTING, _read(given), 0.0, COURTESY_S)


def _error_message(body: bytes) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(body)["error"]["message"])
    return ""


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: fairlead hook EVENT (see fairlead hook --help)", file=sys.stderr)
        return BLOCKED
    return run(sys.argv[1], sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    sys.exit(main())
