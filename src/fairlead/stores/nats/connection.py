"""The connection to the NATS servers, the cell's streams, and the calls of JetStream that the store needs."""

import asyncio
import base64
import contextlib
import itertools
import json
import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec
import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from fairlead.model.errors import BadRequest, StoreError, Unavailable
from fairlead.stores.nats.names import CELL, Names

SCHEME: Final = "nats"
# Atomic batches of several messages.
OLDEST: Final = (2, 12)
# Seconds for one answer of JetStream, and between two tries.
TRY_S: Final = 3.0
PAUSE_S: Final = 0.03
# Seconds between two lines in the log while the servers are away at the start.
_REPORT_S: Final = 5.0

TRANSIENT: Final = (TimeoutError, nats.errors.Error, OSError)
"""Errors that another try may not have."""

_log = logging.getLogger(__name__)


class Address(msgspec.Struct, frozen=True):
    """A parsed `--store`: nats://host,host:port/cell?replicas=3"""

    servers: tuple[str, ...]
    cell: str = "main"
    replicas: int = 0
    """0: three in a cluster of servers, else one."""
    text: str = ""


def read_address(text: str) -> Address:
    parts = urlsplit(text)
    if parts.scheme not in ("nats", "tls") or not parts.netloc:
        raise BadRequest(f"{text!r} is not a store: use nats://HOST[,HOST...]/CELL.", store=text)
    cell = parts.path.strip("/") or "main"
    if not CELL.fullmatch(cell):
        raise BadRequest(f"{cell!r} is not a cell: use 1 to 16 of a-z and 0-9.", store=text)
    access, _, hosts = parts.netloc.rpartition("@")
    prefix = f"{parts.scheme}://{access}@" if access else f"{parts.scheme}://"
    servers = tuple(f"{prefix}{host if ':' in host else f'{host}:4222'}" for host in hosts.split(",") if host)
    replicas = parse_qs(parts.query).get("replicas", ["0"])[0]
    if replicas not in ("0", "1", "2", "3", "5"):
        raise BadRequest(f"replicas={replicas} in {text!r}: use 1, 2, 3 or 5.", store=text)
    return Address(servers, cell, int(replicas), f"{parts.scheme}://{hosts}/{cell}")


class StoredMessage(NamedTuple):
    """A message of a stream, by Direct Get or republished."""

    seq: int
    subject: str
    headers: dict[str, str]
    body: bytes


def stored_message(message: Msg) -> StoredMessage:
    headers = message.headers or {}
    return StoredMessage(int(headers["Nats-Sequence"]), headers["Nats-Subject"], headers, message.data)


class JetStream:
    """The calls of JetStream. Errors of `TRANSIENT` leave it; StoreError for an answer that is an error."""

    def __init__(self, client: Client, names: Names) -> None:
        self.client = client
        self.names = names
        self._inbox = client.new_inbox()
        self._numbers = itertools.count()
        self._answers: dict[str, asyncio.Future[Msg]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def request(
        self, subject: str, body: bytes, timeout_s: float = TRY_S, headers: dict[str, str] | None = None
    ) -> Msg:
        """One message and its answer. The client has such a call too, but it may lose a cancellation (`wait_for`)."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        await asyncio.shield(self._listening)
        reply = f"{self._inbox}.{next(self._numbers)}"
        future = self._answers[reply] = asyncio.get_running_loop().create_future()
        try:
            await self.client.publish(subject, body, reply=reply, headers=headers)
            async with asyncio.timeout(timeout_s):
                answer: Msg = await future
        finally:
            del self._answers[reply]
        if (answer.headers or {}).get("Status") == "503":
            raise nats.errors.NoRespondersError
        return answer

    async def _listen(self) -> None:
        async def received(message: Msg) -> None:
            future = self._answers.get(message.subject)
            if future is not None and not future.done():
                future.set_result(message)

        await self.client.subscribe(f"{self._inbox}.*", cb=received, pending_bytes_limit=512 << 20)

    async def call(self, subject: str, body: Any = None, timeout_s: float = TRY_S) -> dict[str, Any]:
        payload = b"" if body is None else json.dumps(body).encode()
        answer = await self.request(f"$JS.API.{subject}", payload, timeout_s)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    async def last_seq(self, stream: str) -> int:
        found = await self.call(f"STREAM.INFO.{stream}")
        if "state" not in found:
            raise nats.errors.Error(str(found.get("error")))
        return int(found["state"]["last_seq"])

    async def last_of(self, stream: str, subject: str) -> StoredMessage | None:
        """The last message of a subject, as the stream's leader has it; None without one."""
        found = await self.call(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
        if "message" not in found:
            if found.get("error", {}).get("code") == 404:
                return None
            raise nats.errors.Error(str(found.get("error")))
        message = found["message"]
        head = base64.b64decode(message.get("hdrs", "")).decode()
        lines = (line.partition(":") for line in head.split("\r\n")[1:] if ":" in line)
        headers = {name.strip(): value.strip() for name, _, value in lines}
        body = base64.b64decode(message.get("data", ""))
        return StoredMessage(int(message["seq"]), message["subject"], headers, body)

    async def has_after(self, stream: str, seq: int) -> bool:
        """Whether the leader has a message above `seq`."""
        found = await self.call(f"STREAM.MSG.GET.{stream}", {"seq": seq + 1, "next_by_subj": ">"})
        if "message" not in found and found.get("error", {}).get("code") != 404:
            raise nats.errors.Error(str(found.get("error")))
        return "message" in found

    async def read(self, stream: str, seq: int, count: int, subject: str = "") -> Sequence[StoredMessage]:
        """Up to `count` messages from `seq` on, of any replica; `subject`: only of this one. A replica that lags
        returns fewer than there are."""
        asked: dict[str, Any] = {"seq": seq, "batch": count}
        if subject:
            asked["next_by_subj"] = subject
        inbox = self.client.new_inbox()
        answers: asyncio.Queue[Msg] = asyncio.Queue()

        async def received(message: Msg) -> None:
            answers.put_nowait(message)

        subscription = await self.client.subscribe(inbox, cb=received, pending_bytes_limit=512 << 20)
        found: list[StoredMessage] = []
        try:
            await self.client.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(asked).encode(), reply=inbox)
            while True:
                async with asyncio.timeout(TRY_S):
                    message = await answers.get()
                if (message.headers or {}).get("Status"):
                    return found
                found.append(stored_message(message))
        finally:
            with contextlib.suppress(*TRANSIENT):
                await subscription.unsubscribe()

    async def purge(self, stream: str, subject: str, below: int = 0) -> None:
        """Remove a subject's messages with a sequence below `below`; 0: all."""
        asked: dict[str, Any] = {"filter": subject}
        if below:
            asked["seq"] = below
        found = await self.call(f"STREAM.PURGE.{stream}", asked)
        if not found.get("success"):
            raise nats.errors.Error(str(found.get("error")))


async def connect(address: Address, name: str, creds: str = "", patience_s: float | None = None) -> Client:
    """Connect to one of the servers. While they are away it waits, and says for what; at most `patience_s`."""
    problem = ""

    async def failed(error: Exception) -> None:
        nonlocal problem
        problem = str(error) or type(error).__name__
        _log.debug("NATS: %s", problem)

    options: dict[str, Any] = {"user_credentials": creds} if creds else {}
    connecting = asyncio.create_task(
        nats.connect(
            servers=list(address.servers),
            name=name,
            error_cb=failed,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.1,
            connect_timeout=2,
            # A frozen server is left after 4 to 6 seconds.
            ping_interval=2,
            max_outstanding_pings=2,
            **options,
        )
    )
    waited = 0.0
    while not connecting.done():
        step = _REPORT_S if patience_s is None else min(_REPORT_S, patience_s - waited)
        await asyncio.wait({connecting}, timeout=step)
        waited += step
        if not connecting.done():
            _log.warning("waiting for the NATS servers of %s (%s)", address.text, problem or "no answer")
            if patience_s is not None and waited >= patience_s:
                connecting.cancel()
                await asyncio.wait({connecting})
                raise Unavailable(f"The NATS servers of {address.text} cannot be reached ({problem or 'no answer'}).")
    try:
        client = connecting.result()
    except (*TRANSIENT, ValueError) as error:
        raise StoreError(f"The NATS servers of {address.text} refuse the connection: {error}") from error
    try:
        _check_server(client)
    except BaseException:
        await client.close()
        raise
    return client


def _check_server(client: Client) -> None:
    version = client.connected_server_version
    if (version.major, version.minor) < OLDEST:
        raise BadRequest(
            f"The NATS server has version {version.major}.{version.minor}.{version.patch}: Fairlead needs "
            f"{OLDEST[0]}.{OLDEST[1]} or later.",
            version=f"{version.major}.{version.minor}.{version.patch}",
        )
    if not client._server_info.get("jetstream"):
        raise BadRequest("JetStream is off on the NATS server: add a section jetstream to its configuration.")


def _configs(names: Names, replicas: int) -> list[dict[str, Any]]:
    common = {
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "num_replicas": replicas,
        "allow_direct": True,
    }
    log, bucket = f"fl.{names.cell}.log.*", f"$KV.fl_{names.cell}.>"
    return [
        {
            **common,
            "name": names.log_stream,
            "subjects": [log],
            "allow_atomic": True,
            "republish": {"src": log, "dest": f"{names.live_log}.{{{{wildcard(1)}}}}"},
        },
        {
            **common,
            "name": names.bucket_stream,
            "subjects": [bucket],
            "allow_atomic": True,
            "allow_msg_ttl": True,
            "max_msgs_per_subject": 1,
            "republish": {"src": bucket, "dest": f"{names.live_bucket}.>"},
        },
        {**common, "name": names.object_stream, "subjects": [f"fl.{names.cell}.obj.*.*"], "max_msgs_per_subject": 1},
    ]


async def make_streams(js: JetStream, address: Address, patience_s: float = 60.0) -> None:
    """Create the streams that do not exist. A cluster that elects its leader is waited for."""
    clustered = bool(js.client._server_info.get("cluster"))
    replicas = address.replicas or (3 if clustered else 1)
    if replicas < 3:
        _log.warning(
            "The cell %s has %d replica(s): nothing survives the loss of a server's disk.", address.cell, replicas
        )
    for config in _configs(js.names, replicas):
        await _make_stream(js, config, patience_s)


async def _make_stream(js: JetStream, config: dict[str, Any], patience_s: float) -> None:
    problem = ""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience_s
    while loop.time() < until:
        try:
            found = await js.call(f"STREAM.INFO.{config['name']}")
            if "config" in found:
                _check_stream(config, found["config"])
                return
            if found.get("error", {}).get("code") == 404:
                found = await js.call(f"STREAM.CREATE.{config['name']}", config, timeout_s=10.0)
                if "config" in found:
                    return
            problem = str(found.get("error", {}).get("description", found))
        except TRANSIENT as error:
            problem = str(error) or type(error).__name__
        await asyncio.sleep(0.2)
    raise StoreError(f"The stream {config['name']} cannot be created: {problem}", stream=config["name"])


def _check_stream(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    for name in ("subjects", "allow_direct", "discard", "allow_atomic", "allow_msg_ttl", "max_msgs_per_subject"):
        if name in wanted and found.get(name) != wanted[name]:
            raise BadRequest(
                f"The stream {wanted['name']} was made by something else: its {name} is {found.get(name)!r}, and "
                f"Fairlead needs {wanted[name]!r}. Choose another cell, or delete the stream.",
                stream=wanted["name"],
            )
