"""The law of the keeper: whatever happens to gateways, each byte of output is stored once and in order, and the input
of each key is written once and in order.

The state is real; the processes, their pipes and the gateways are simulated. A gateway has a durable part, which
survives its death: the output that it has stored, and the keys of the input that it has decided to send.
"""

from collections import deque
from random import Random
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from fairlead.keeper import buffers
from fairlead.keeper import effects as do
from fairlead.keeper import messages as say
from fairlead.keeper.frames import FrameDecoder
from fairlead.keeper.state import KeeperState
from sizing import examples

SMALL: dict[str, Any] = {"UNATTENDED": 20, "ATTENDED": 50, "WINDOW": 8, "CHUNK": 3, "KEYS": 1000}
"""So small that a short run reaches every limit."""
AGENTS = (1, 2)


class Agent:
    """A process and its pipes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written = b""
        self.heard = b""
        self.is_read = True
        self.room = 5
        """Bytes that its input takes before it is full."""
        self.is_awaited = False

    def next_output(self, size: int) -> bytes:
        start = len(self.written)
        data = bytes((self.number * 101 + offset * 7) % 251 for offset in range(start, start + size))
        self.written += data
        return data


class Log:
    """What a gateway has stored of one agent."""

    def __init__(self) -> None:
        self.output = b""
        self.keys: list[str] = []
        self.exit: int | None = None


class Simulation:
    def __init__(self) -> None:
        self.state = KeeperState()
        self.agents = {number: Agent(number) for number in AGENTS}
        self.logs = {number: Log() for number in AGENTS}
        self.connection = 0
        self.connected = False
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()
        self.unsaved: dict[int, bytes] = {}
        self.perform(self.state.begin())
        self.connect()
        for number in AGENTS:
            self.send(say.SpawnRequest(number, [], ["agent"], {}, "/", {}, None, 60.0, [1, 1]))
        self.flow_up(len(self.up))
        for number in AGENTS:
            self.perform(self.state.started(number, 1000 + number, ""))
            self.send(say.Attach(number, 0))
            self.unsaved[number] = b""

    # --- the shell

    def perform(self, effects: list[do.Effect]) -> None:
        waiting = deque(effects)
        while waiting:
            match waiting.popleft():
                case do.SendFrame(connection, frame):
                    assert connection == self.connection and self.connected
                    self.down.append(frame)
                case do.WatchOutput(number, on):
                    self.agents[number].is_read = on
                case do.WriteChunk(number, data):
                    agent = self.agents[number]
                    taken = data[: agent.room]
                    agent.heard += taken
                    agent.room -= len(taken)
                    waiting.extend(self.state.wrote(number, len(taken)))
                case do.AwaitInput(number):
                    self.agents[number].is_awaited = True
                case do.CloseConnection(connection):
                    assert connection != self.connection, "the gateway was thrown out"

    def flow_up(self, count: int) -> None:
        """Some of what the gateway has sent reaches the keeper."""
        for _ in range(min(count, len(self.up))):
            for frame in FrameDecoder().feed(self.up.popleft()):
                self.perform(self.state.received(self.connection, frame))

    # --- the agents

    def write_output(self, number: int, size: int) -> None:
        agent = self.agents[number]
        if agent.is_read and size:
            data = agent.next_output(size)
            passed = self.state.pass_on(number, data)
            self.perform(self.state.output(number, data) if passed is None else [passed])

    def read_input(self, number: int, size: int) -> None:
        agent = self.agents[number]
        agent.room += size
        if agent.is_awaited and agent.room:
            agent.is_awaited = False
            self.perform(self.state.input_ready(number))

    # --- the gateway

    def send(self, message: say.Message) -> None:
        self.up.append(say.pack(message))

    def connect(self) -> None:
        """A gateway connects; if another one is connected, it is replaced."""
        old = self.connection if self.connected else None
        self.connection += 1
        self.connected = True
        self.up.clear()
        self.down.clear()
        self.unsaved = {}
        self.send(say.Hello())
        self.flow_up(1)
        if old is not None:
            self.perform(self.state.closed(old))

    def kill(self) -> None:
        if self.connected:
            self.connected = False
            self.up.clear()
            self.down.clear()
            self.perform(self.state.closed(self.connection))

    def flow_down(self, count: int) -> None:
        """The gateway receives some of what the keeper has sent."""
        for _ in range(min(count, len(self.down))):
            for frame in FrameDecoder().feed(self.down.popleft()):
                self.receive(say.unpack(frame))

    def receive(self, message: say.Message) -> None:
        match message:
            case say.Kept(number, request):
                if request == 0:
                    self.adopt(number, message)
            case say.Output(number, offset, data):
                # What was sent before the last attach overlaps with what is stored.
                position = len(self.logs[number].output) + len(self.unsaved[number])
                assert offset == position, "the keeper has sent another offset"
                self.unsaved[number] += data
            case say.Exited(number, code):
                self.logs[number].exit = code
            case say.AttachRefused():
                raise AssertionError("the keeper no longer has what is not stored")

    def adopt(self, number: int, kept: say.Kept) -> None:
        log = self.logs[number]
        self.unsaved[number] = b""
        self.send(say.Attach(number, len(log.output)))
        for key in log.keys:
            self.send(say.WriteInput(number, 1, key, f"{key};".encode()))
        if kept.exit is not None:
            log.exit = kept.exit[0]

    def save(self, number: int, acknowledges: bool) -> None:
        """Store what was received; a gateway may be killed before it acknowledges it."""
        if self.connected and number in self.unsaved:
            log = self.logs[number]
            log.output += self.unsaved[number]
            self.unsaved[number] = b""
            self.send(say.Ack(number, len(log.output), None) if acknowledges else say.Taken(number, len(log.output)))

    def decide(self, number: int, is_new: bool) -> None:
        """Send input with a new key, or with a key that was sent before."""
        if self.connected and number in self.unsaved:
            keys = self.logs[number].keys
            if is_new or not keys:
                keys.append(f"key-{len(keys)}")
            key = keys[-1] if is_new else keys[len(keys) // 2]
            self.send(say.WriteInput(number, 1, key, f"{key};".encode()))

    # --- the run

    def step(self, action: str, number: int, size: int) -> None:
        match action:
            case "output":
                self.write_output(number, size)
            case "input":
                self.read_input(number, size)
            case "up":
                self.flow_up(size)
            case "down":
                self.flow_down(size)
            case "save":
                self.save(number, acknowledges=size % 3 > 0)
            case "decide":
                self.decide(number, is_new=size % 2 == 0)
            case "kill":
                self.kill()
            case "connect" if size % 2 or not self.connected:
                self.connect()

    def settle(self) -> None:
        """Let everything arrive, with a gateway that stores and acknowledges all it gets."""
        if not self.connected:
            self.connect()
        for number in AGENTS:
            self.read_input(number, 10_000)
        while self.up or self.down or any(self.unsaved.values()):
            self.flow_up(len(self.up))
            self.flow_down(len(self.down))
            for number, data in list(self.unsaved.items()):
                if data:
                    self.save(number, acknowledges=True)


ACTIONS = ("output", "input", "up", "down", "save", "decide", "kill", "connect")


@examples(400, 10_000)
@given(st.randoms(use_true_random=True), st.booleans())
def test_every_byte_is_stored_once_and_every_key_written_once(rng: Random, ends_without_a_gateway: bool) -> None:
    # Each run prefers other actions, so that some runs have long outages, others slow readers or full pipes.
    weights = [rng.choice((1, 3, 10, 30)) for _ in ACTIONS[:-2]] + [rng.choice((1, 3)) for _ in ACTIONS[-2:]]
    steps = [(action, rng.choice(AGENTS), rng.randrange(10)) for action in rng.choices(ACTIONS, weights, k=250)]
    with patch.multiple(buffers, **SMALL):
        run = Simulation()
        for step in steps:
            run.step(*step)
        if not ends_without_a_gateway:
            run.settle()
            assert all(agent.is_read for agent in run.agents.values()), "an agent waits although all is acknowledged"
            for number in AGENTS:
                run.write_output(number, 9)
        elif run.connected:
            run.kill()
        expected = {number: "".join(f"{key};" for key in run.logs[number].keys).encode() for number in AGENTS}
        heard = {number: run.agents[number].heard for number in AGENTS}
        for number in AGENTS:
            run.perform(run.state.exited(number, number, False))
        run.settle()
        for number in AGENTS:
            assert run.logs[number].output == run.agents[number].written
            assert run.logs[number].exit == number
            assert run.agents[number].heard == heard[number]
            if ends_without_a_gateway:
                assert expected[number].startswith(heard[number])
            else:
                assert heard[number] == expected[number]
