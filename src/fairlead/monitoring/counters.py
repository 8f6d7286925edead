"""What the gateway has done since its start, counted. Numbers only; `metrics.py` gives them Prometheus' form."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import Gateway, GatewayWrapper
from fairlead.model.ids import SessionId

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper limits of the durations of commands, in seconds."""


class Counters:
    def __init__(self) -> None:
        self.commands: Counter[tuple[str, str]] = Counter()
        """By command and outcome: ok, or the code of the error."""
        self.durations = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0
        self.turns: Counter[str] = Counter()
        self.cost_usd = 0.0
        self.tokens: Counter[str] = Counter()
        self.decisions: Counter[tuple[str, str]] = Counter()
        """By behavior and who decided: a person, a rule, a mode and so on."""
        self.refused: Counter[str] = Counter()

    def committed(self, session: SessionId, events: Sequence[ev.Event]) -> None:
        """Count events that were stored now."""
        for event in events:
            if isinstance(event, ev.TurnEnded):
                self.turns[event.status] += 1
                self.cost_usd += event.cost_usd
                for usage in event.usage.values():
                    self.tokens["input"] += usage.input
                    self.tokens["output"] += usage.output
                    self.tokens["cache_read"] += usage.cache_read
                    self.tokens["cache_write"] += usage.cache_write
            elif isinstance(event, ev.PermissionResolved):
                self.decisions[event.behavior, event.how] += 1

    def count_command(self, command: str, outcome: str, seconds: float) -> None:
        self.commands[command, outcome] += 1
        self.durations[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds


class MeteredGateway(GatewayWrapper):
    """The port of a gateway, with its commands counted and measured."""

    def __init__(self, gateway: Gateway, counters: Counters, monotonic: Callable[[], float]) -> None:
        super().__init__(gateway)
        self._counters = counters
        self._monotonic = monotonic

    async def command(self, who: Identity, command: cmd.Command) -> cmd.Reply:
        began, outcome = self._monotonic(), "internal"
        try:
            reply = await self.gateway.command(who, command)
            outcome = "ok"
            return reply
        except FairleadError as error:
            outcome = error.code
            raise
        finally:
            self._counters.count_command(str(command.__struct_config__.tag), outcome, self._monotonic() - began)
