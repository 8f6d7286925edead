"""Whether the gateway drains. Sessions read it before they start a turn; `operation.py` turns it on and off."""

from typing import Final

DRAINING: Final = (
    "The gateway is draining and starts no turns: the message is queued, and goes to the agent when the gateway is "
    "back."
)


class DrainSwitch:
    def __init__(self) -> None:
        self.on = False
