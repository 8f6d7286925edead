"""The identity of a cell: a record in the bucket that its first node makes."""

import asyncio
import hashlib
import hmac
import uuid
from typing import Final

import msgspec

from fairlead.model.errors import BadRequest, Unavailable
from fairlead.stores.nats.connection import TRANSIENT, Address, JetStream
from fairlead.stores.nats.publishing import Outgoing, Publisher, Refused
from fairlead.stores.sqlite.cell_mark import CellMark

_KEY: Final = ("meta", "cell")


class CellRecord(msgspec.Struct, frozen=True):
    id: str
    key: str = ""
    """The fingerprint of the cluster key; another key is refused."""


def fingerprint(key: bytes) -> str:
    return hmac.digest(key, b"fairlead cell", hashlib.sha256).hex()[:32] if key else ""


async def read_cell(js: JetStream, address: Address, key: bytes) -> CellMark:
    """Read the record, or make it. BadRequest if this node has another cluster key."""
    subject = js.names.key(*_KEY)
    publisher = Publisher(js, js.names.bucket_stream, expires=True)
    for _ in range(100):
        try:
            found = await js.last_of(js.names.bucket_stream, subject)
            if found is None:
                made = CellRecord(uuid.uuid4().hex, fingerprint(key))
                await publisher.publish(Outgoing(subject, msgspec.json.encode(made), 0))
                continue
            record = msgspec.json.decode(found.body, type=CellRecord)
            if record.key != fingerprint(key):
                raise BadRequest(
                    f"The cell {address.text} has another cluster key: copy the file of --cluster-key from one of its"
                    " nodes."
                )
            return CellMark(record.id, address.text)
        except Refused:
            continue
        except TRANSIENT:
            await asyncio.sleep(0.1)
    raise Unavailable(f"The cell {address.text} cannot be read.")
