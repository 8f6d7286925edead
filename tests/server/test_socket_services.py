"""The state that socket protocols keep for a client's next socket: who gets it, how long, and how much."""

import asyncio

from fairlead.model.auth import Identity
from fairlead.model.web.sockets import KeepState, KeptState, Pause, RecallState
from fairlead.server.socket_services import KEPT_PER_CREDENTIAL, KEPT_S, KEPT_STATES, SocketServices
from fairlead_testing.clock import ManualClock

ANN = Identity("c1", "ann", "ann", frozenset({"view"}))
BOB = Identity("c2", "bob", "bob", frozenset({"admin"}))


class State:
    forgotten = False

    def forget(self) -> None:
        self.forgotten = True


async def recall(services: SocketServices, who: Identity, key: str) -> KeptState | None:
    found: KeptState | None = await services.handlers()[RecallState](who, RecallState(key))
    return found


async def test_a_state_is_for_the_same_credential_alone() -> None:
    services, state = SocketServices(ManualClock()), State()
    services.keep(ANN, KeepState("ahp:vs", state))
    assert await recall(services, ANN, "ahp:vs") is state
    assert await recall(services, ANN, "ahp:other") is None
    assert await recall(services, BOB, "ahp:vs") is None
    bobs = State()
    services.keep(BOB, KeepState("ahp:vs", bobs))
    assert await recall(services, ANN, "ahp:vs") is state and await recall(services, BOB, "ahp:vs") is bobs


async def test_a_state_is_forgotten_some_minutes_after_its_socket_has_closed() -> None:
    clock, state = ManualClock(), State()
    services = SocketServices(clock)
    entry = services.keep(ANN, KeepState("vs", state))
    await clock.advance(10 * KEPT_S)
    assert await recall(services, ANN, "vs") is state, "its socket is open"
    services.leave(entry)
    await clock.advance(KEPT_S - 1)
    assert await recall(services, ANN, "vs") is state
    await clock.advance(2)
    assert await recall(services, ANN, "vs") is None and state.forgotten
    services.leave(entry)
    services.drop(entry)
    assert clock.waiting == 0


async def test_a_new_state_takes_the_place_of_the_old_one() -> None:
    clock, old, new = ManualClock(), State(), State()
    services = SocketServices(clock)
    first = services.keep(ANN, KeepState("vs", old))
    services.leave(first)
    services.keep(ANN, KeepState("vs", new))
    assert old.forgotten and clock.waiting == 0
    services.leave(first)
    await clock.advance(2 * KEPT_S)
    assert await recall(services, ANN, "vs") is new


async def test_the_kept_states_are_bounded_for_each_credential_and_over_all() -> None:
    services = SocketServices(ManualClock())
    states = [State() for _ in range(KEPT_PER_CREDENTIAL + 2)]
    entries = [services.keep(ANN, KeepState(str(number), state)) for number, state in enumerate(states[:-2])]
    services.leave(entries[5])
    for number, state in enumerate(states[-2:], len(entries)):
        services.keep(ANN, KeepState(str(number), state))
    assert [number for number, state in enumerate(states) if state.forgotten] == [0, 5], "those of closed sockets first"
    for number in range(KEPT_STATES):
        services.keep(Identity(f"x{number}", "u", "u", frozenset()), KeepState("vs", State()))
    assert len(services._kept) == KEPT_STATES and all(state.forgotten for state in states)


async def test_a_pause_ends_after_its_time() -> None:
    clock = ManualClock()
    services = SocketServices(clock)
    paused = services.handlers()[Pause](ANN, Pause(1.5))
    task = asyncio.ensure_future(paused)
    await clock.advance(1)
    assert not task.done()
    await clock.advance(1)
    assert task.done()
