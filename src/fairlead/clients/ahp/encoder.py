"""The entries of a log as `action` frames. Pure and stateless: all that depends on earlier entries is the context."""

from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.clients.ahp.channels import chat_uri, session_uri
from fairlead.clients.ahp.context import ActionOrigin, Context, Sent
from fairlead.clients.ahp.snapshots import server_seq
from fairlead.clients.ahp.translate import translate_entry
from fairlead.clients.ahp.wire import Fields, notification_frame
from fairlead.model.gateway import EncoderWithoutSignals
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry


class AhpEncoder(EncoderWithoutSignals, frozen=True):
    """Implements `model.gateway.FrameEncoder` and `Contextual`. `chat` and `session`: the channels that the client
    subscribes to, each as the seq after which it receives actions (its snapshot has the earlier ones); None: not
    subscribed."""

    chat: int | None = None
    session: int | None = None

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: Any, session: SessionId, entry: Entry) -> tuple[Context, bytes]:
        known: Context = Context() if context is None else context
        known, sent = translate_entry(known, session, entry)
        return known, b"".join([action_frame(params) for _, params in self.envelopes(session, entry, sent)])

    def envelopes(self, session: SessionId, entry: Entry, sent: Sequence[Sent]) -> Iterator[tuple[Sent, Fields]]:
        """Those of an entry's actions that the client receives, each with its envelope."""
        for slot, one in enumerate(sent):
            after = self.chat if one.chat else self.session
            if after is not None and entry.seq > after:
                channel = chat_uri(session) if one.chat else session_uri(session)
                yield one, action_envelope(channel, one.action, server_seq(entry.at, slot), one.origin)


def action_envelope(
    channel: str, action: Fields, number: int, origin: ActionOrigin | None = None, rejected: str = ""
) -> Fields:
    """`rejected`: why the action was not accepted."""
    params: Fields = {"channel": channel, "action": action, "serverSeq": number}
    if origin is not None:
        params["origin"] = origin.fields
    if rejected:
        params["rejectionReason"] = rejected
    return params


def action_frame(envelope: Fields) -> bytes:
    return notification_frame("action", envelope)
