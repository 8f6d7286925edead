"""Drives the flows of a socket protocol without a server: the test answers each step."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fairlead.model.errors import FairleadError
from fairlead.model.web.sockets import Effect, RunFlow, SocketProtocol


def drive(protocol: SocketProtocol, effects: Sequence[Effect], answer: Callable[[Any, str], Any]) -> Iterator[Effect]:
    """Yield the effects that are applied, with those of the flows. `answer` is called with each step, subscription and
    end of a subscription, and with the lane of its flow; it returns the answer, or raises the step's error."""
    for effect in effects:
        if isinstance(effect, RunFlow):
            yield from _run(protocol, effect, answer)
        else:
            yield effect


def _run(protocol: SocketProtocol, run: RunFlow, answer: Callable[[Any, str], Any]) -> Iterator[Effect]:
    flow, reply, error = run.flow, None, None
    while True:
        try:
            thing = flow.send(reply) if error is None else flow.throw(error)
        except StopIteration:
            return
        except FairleadError as unhandled:
            yield from drive(protocol, protocol.failed(unhandled), answer)
            return
        reply, error = None, None
        if isinstance(thing, Effect):
            yield from drive(protocol, (thing,), answer)
        else:
            try:
                reply = answer(thing, run.lane)
            except FairleadError as failed:
                error = failed
