"""Compares the databases of the nodes of a cell: each one tells the head, the number and a digest of the entries of its
logs."""

import uuid

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.stores.nats.bucket import Bucket
from fairlead.stores.nats.connection import Address, JetStream, connect
from fairlead.stores.nats.digests import DIGESTS, LogDigest
from fairlead.stores.nats.lease import LeaseTimes
from fairlead.stores.nats.names import Names, key_of
from fairlead.stores.nats.peers import NatsPeers
from fairlead.stores.nats.presence import Presence
from fairlead.stores.nats.store import NatsOptions
from fairlead.system.clock import SystemClock


class NodeComparison(msgspec.Struct, kw_only=True):
    """`nodes`: those that answered, with the number of their logs; `silent`: those that did not; `different`: the
    sessions whose logs differ, with the nodes' digests."""

    nodes: dict[str, int] = {}
    silent: dict[str, str] = {}
    different: dict[str, dict[str, LogDigest | None]] = {}


async def verify(address: Address, options: NatsOptions) -> NodeComparison:
    """Ask every node for its digests, and compare them. Sessions that are being written to may differ for a moment."""
    clock = SystemClock()
    client = await connect(address, "fairlead storage verify", options.creds, options.patience_s or 30.0)
    try:
        js = JetStream(client, Names(address.cell))
        nodes = await js.read(js.names.bucket_stream, 1, 1000, js.names.key("node") + ".*")
        name = f"verify-{uuid.uuid4().hex[:12]}"
        bucket = Bucket(js, js.names, None, clock)  # type: ignore[arg-type]  # it is not started
        peers = NatsPeers(client, js.names, name, options.key, Presence(bucket, name, clock, LeaseTimes()), clock)
        await peers.start()
        comparison = NodeComparison()
        answers: dict[str, dict[str, LogDigest]] = {}
        for node in sorted(key_of(message.subject)[-1] for message in nodes if message.body):
            try:
                answer = await peers.ask(node, DIGESTS, b"", timeout_s=600.0)
            except FairleadError as error:
                comparison.silent[node] = error.message
                continue
            logs = msgspec.msgpack.decode(answer, type=list[LogDigest])
            answers[node] = {log.session: log for log in logs}
            comparison.nodes[node] = len(logs)
        for session in sorted({session for logs in answers.values() for session in logs}):
            there = {node: logs.get(session) for node, logs in answers.items()}
            if len(set(there.values())) > 1:
                comparison.different[session] = there
        await peers.close()
        return comparison
    finally:
        await client.close()
