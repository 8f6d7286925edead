"""Targets: external receivers of a person's notices (a webhook, an ntfy topic, a browser's push service), and the
answers that a push message can give."""

from typing import ClassVar, Literal

import msgspec

from fairlead.model.errors import FairleadError, NotAllowed
from fairlead.model.ids import RequestId, SessionId
from fairlead.model.web.requests import ServiceCall
from fairlead.notifications.api.resources import Resource


class Destination(Resource, frozen=True, kw_only=True, rename="camel"):
    """A target. `topics`: its subscriptions, by topic or kind of notices, by resource or `<resource>.<action>`.
    `secret` signs the payloads (webhook) or authenticates at the topic (ntfy); `p256dh` and `auth` are a browser's
    keys. Secrets never leave this package. `seq`: the last entry that was handled. `device`: the credential of the
    browser that it belongs to; it is removed with that credential. `approves`: it may answer permission requests."""

    private: ClassVar[bool] = True

    kind: Literal["webhook", "ntfy", "push"]
    url: str
    secret: str = ""
    topics: tuple[str, ...] = ()
    p256dh: str = ""
    auth: str = ""
    device: str = ""
    approves: bool = False
    seq: int = 0
    failed: str | None = None


class AddTarget(ServiceCall["tuple[Destination, str]"], frozen=True):
    """-> (`Destination`, its secret, which is shown only once); TargetRefused"""

    target: Destination


class TryTarget(ServiceCall[None], frozen=True):
    """-> None when the target accepted the test notice; TargetFailed"""

    id: str


class PushKey(ServiceCall[str], frozen=True):
    """-> str: the public key that a browser needs to subscribe"""


class RedeemAnswerCode(ServiceCall["AnswerOf"], frozen=True):
    """-> `AnswerOf`: the answer that a push message's code stands for; the code is used up. BadAnswerCode"""

    code: str


class AnswerOf(msgspec.Struct, frozen=True, kw_only=True):
    session: SessionId
    request: RequestId
    behavior: Literal["allow", "deny"]


class BadAnswerCode(NotAllowed, code="bad_answer_code"):
    """The same message whatever is wrong with the code: a guesser learns nothing."""

    def __init__(self) -> None:
        super().__init__("This notification cannot answer any more: open the card of what waits.")


class TargetRefused(FairleadError, code="target_refused", status=400):
    """A target to which Fairlead does not send: no public address, or no address that can be called."""


class TargetFailed(FairleadError, code="target_failed", status=502):
    pass
