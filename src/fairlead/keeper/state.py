"""The keeper's state: the processes, what it holds of each, and the gateway that is connected. Pure.

Every method takes one event of the process around it (daemon.py) and returns the effects that follow, in order.
One gateway is connected at a time, and the newest one wins. A gateway that leaves changes nothing for the processes.
"""

from typing import Final

from fairlead.keeper import effects as do
from fairlead.keeper import messages as say
from fairlead.keeper.frames import Frame, MalformedFrame
from fairlead.keeper.held import Held

IDLE_SECONDS: Final = 60.0
"""How long the keeper waits for a gateway when it has no process."""
ORPHAN_STEPS: Final = (5.0, 3.0, 5.0)
"""The seconds of each step when the keeper itself stops a process, as in system/process_group.py."""

_ORPHAN = "orphan"
_STEP = "step"
_IDLE = ("idle", 0)


class KeeperState:
    def __init__(self) -> None:
        self._effects: list[do.Effect] = []
        self._gateway: int | None = None
        self._congested = False
        self._held: dict[int, Held] = {}
        self._starting: dict[int, tuple[int, say.SpawnRequest]] = {}
        """Processes that are being started, each with the connection that asked for it."""
        self._last = 0

    def begin(self) -> list[do.Effect]:
        """The keeper listens."""
        self._check_idle()
        return self._result()

    # --- the gateway

    def received(self, connection: int, frame: Frame) -> list[do.Effect]:
        try:
            message = say.unpack(frame)
            if isinstance(message, say.Hello) and connection != self._gateway:
                self._welcome(connection)
            elif connection != self._gateway:
                raise MalformedFrame("a frame before the Hello, or of a gateway that was replaced")
            else:
                self._handle(connection, message)
        except MalformedFrame as error:
            return self.bad_frame(connection, error)
        return self._result()

    def bad_frame(self, connection: int, error: MalformedFrame) -> list[do.Effect]:
        self._do(do.LogLine(f"connection {connection} is closed: it sent {error}"))
        self._do(do.CloseConnection(connection))
        self._leave(connection)
        return self._result()

    def closed(self, connection: int) -> list[do.Effect]:
        self._leave(connection)
        return self._result()

    def congested(self, connection: int, is_congested: bool) -> list[do.Effect]:
        """The connection has, or no longer has, much data that was not sent yet."""
        if connection == self._gateway:
            self._congested = is_congested
            for held in () if is_congested else self._held.values():
                self._push(held)
        return self._result()

    def _welcome(self, connection: int) -> None:
        if self._gateway is not None:
            self._do(do.LogLine(f"gateway {self._gateway} is replaced"))
            self._do(do.CloseConnection(self._gateway))
            self._leave(self._gateway)
        self._do(do.LogLine(f"gateway {connection} is connected"))
        self._gateway = connection
        self._congested = False
        self._do(do.SetTimer(_IDLE, None))
        for held in self._held.values():
            self._do(do.SetTimer((_ORPHAN, held.number), None))
            self._send(held.entry(0))
            held.stderr.rewind()
            self._send_stderr(held)
        self._send(say.Listed())

    def _leave(self, connection: int) -> None:
        if connection != self._gateway:
            return
        self._do(do.LogLine(f"gateway {connection} has left"))
        self._gateway = None
        for held in self._held.values():
            held.output.detach()
            held.input.forget_numbers()
            self._watch(held)
            self._do(do.SetTimer((_ORPHAN, held.number), held.orphan_s))
        self._check_idle()

    def _handle(self, connection: int, message: say.Message) -> None:
        match message:
            case say.SpawnRequest():
                self._spawn(connection, message)
            case say.Quit():
                if not self._held and not self._starting:
                    self._do(do.QuitKeeper())
            case say.WriteInput(process, number) if process not in self._held:
                self._send(say.Wrote(process, number, False))
            case say.Hello() | say.Listed() | say.SpawnFailed():
                raise MalformedFrame(f"a {type(message).__name__}, which is not expected here")
            case _:
                # A process that was just forgotten may still get messages.
                if (held := self._held.get(message.process)) is not None:
                    self._handle_for(held, message)

    def _handle_for(self, held: Held, message: say.Message) -> None:
        match message:
            case say.Attach(_, offset):
                if not held.output.attach(offset):
                    self._send(say.AttachRefused(held.number, offset))
                self._push(held)
            case say.Detach():
                held.output.detach()
                self._watch(held)
            case say.Taken(_, offset):
                held.output.take(offset)
                self._push(held)
            case say.Ack(_, offset, memo):
                held.output.ack(offset)
                held.memo = held.memo if memo is None else memo
                self._push(held)
            case say.WriteInput(_, number, key, data):
                self._write(held, number, key, data)
            case say.OfferInput(_, data):
                if held.input_open and not held.input:
                    held.input.add(None, "", data)
                    self._feed(held)
            case say.CloseInput():
                if held.size is None:  # a terminal has no input of its own that can be closed
                    self._close_input(held)
            case say.Resize(_, columns, rows):
                if not say.is_size([columns, rows]):
                    raise MalformedFrame(f"a size of {columns} x {rows}")
                if held.size is not None and held.exit is None:
                    held.size = [columns, rows]
                    self._do(do.SetSize(held.number, columns, rows))
            case say.StopProcess(_, close, terminate, kill):
                self._end(held, (close, terminate, kill))
            case say.Forget():
                if held.exit is not None:
                    self._forget(held)
                held.abandoned = True
            case _:
                raise MalformedFrame(f"a {type(message).__name__}, which is not expected here")

    # --- start and end of a process

    def _spawn(self, connection: int, request: say.SpawnRequest) -> None:
        words = [*request.launch, *request.argv, *request.env.values()]
        limits = request.limits
        if not request.argv or not say.is_strings(words):
            raise MalformedFrame("a command that is not a list of texts")
        if request.size is not None and not say.is_size(request.size):
            raise MalformedFrame(f"a size of {request.size}")
        if len(limits) != 2 or not all(isinstance(limit, int) for limit in limits):
            raise MalformedFrame(f"limits of {limits}")
        self._last += 1
        self._starting[self._last] = connection, request
        size = None if request.size is None else (request.size[0], request.size[1])
        command = do.Command(
            tuple(request.launch), tuple(request.argv), request.env, request.cwd, size, (limits[0], limits[1])
        )
        self._do(do.StartChild(self._last, command))

    def started(self, number: int, pid: int, mark: str) -> list[do.Effect]:
        """The process runs and its output is watched. `mark` is its start mark."""
        connection, request = self._starting.pop(number)
        held = self._held[number] = Held(number, request, pid, mark)
        self._do(do.LogLine(f"process {number} is started, pid {pid}"))
        if connection == self._gateway:
            self._send(held.entry(request.request))
        elif self._gateway is not None:
            # The next gateway is connected already, and did not find it in its list.
            held.abandoned = True
            self._end(held, ORPHAN_STEPS)
        else:
            self._do(do.SetTimer((_ORPHAN, number), held.orphan_s))
        return self._result()

    def not_started(self, number: int, errno: int, text: str, filename: str | None) -> list[do.Effect]:
        connection, request = self._starting.pop(number)
        self._do(do.LogLine(f"process {number} is not started: {text}"))
        if connection == self._gateway:
            self._send(say.SpawnFailed(request.request, errno, text, filename))
        self._check_idle()
        return self._result()

    def exited(self, number: int, code: int, monitor: bool) -> list[do.Effect]:
        """The process is reaped. Its last output was passed to `output` before."""
        held = self._held[number]
        self._do(do.LogLine(f"process {number} has ended with {code}"))
        held.exit = code, monitor
        held.input_open = False
        self._refuse(held)
        self._push(held)
        self._end_output(held)
        if held.steps is not None:
            self._do(do.SetTimer((_STEP, number), None))
            self._do(do.SweepChild(number))
        self._send_stderr(held)
        self._send(say.Exited(number, code, monitor))
        if held.abandoned:
            self._forget(held)
        elif self._gateway is None:  # its exit and its last output wait for a gateway as long as it would have
            self._do(do.SetTimer((_ORPHAN, number), held.orphan_s))
        return self._result()

    def _end(self, held: Held, seconds: tuple[float, float, float]) -> None:
        if held.steps is None and held.exit is None:
            first = "close" if held.size is None else "hangup"
            held.steps = list(zip((first, "terminate", "kill"), seconds, strict=True))
            self._next_step(held)

    def _next_step(self, held: Held) -> None:
        assert held.steps is not None
        if not held.steps:
            self._do(do.SweepChild(held.number))
            self._send(say.Unkillable(held.number))
            held.steps = None
            return
        step, seconds = held.steps.pop(0)
        if step == "close":
            self._close_input(held)
        else:
            self._do(do.SignalChild(held.number, step))
        self._do(do.SetTimer((_STEP, held.number), seconds))

    def _forget(self, held: Held) -> None:
        del self._held[held.number]
        self._do(do.SetTimer((_ORPHAN, held.number), None))
        self._check_idle()

    # --- time

    def timer(self, name: tuple[str, int]) -> list[do.Effect]:
        kind, number = name
        held = self._held.get(number)
        if name == _IDLE:
            self._do(do.QuitKeeper())
        elif held is None:
            pass
        elif kind == _STEP:
            if held.exit is None:
                self._next_step(held)
        elif held.exit is None:
            self._do(do.LogLine(f"process {number} is stopped: there was no gateway for {held.orphan_s:g} s"))
            self._end(held, ORPHAN_STEPS)
        else:
            self._do(do.LogLine(f"process {number} is forgotten: there was no gateway for {held.orphan_s:g} s"))
            self._forget(held)
        return self._result()

    def _check_idle(self) -> None:
        if self._gateway is None and not self._held and not self._starting:
            self._do(do.SetTimer(_IDLE, IDLE_SECONDS))

    # --- output

    def pass_on(self, number: int, data: bytes) -> do.SendFrame | None:
        """Return the only effect of output that a gateway waits for, which is the usual case. None: call `output`."""
        gateway = self._gateway
        if gateway is None or (offset := self._held[number].output.pass_on(data)) is None:
            return None
        return do.SendFrame(gateway, say.pack_output(number, offset, data))

    def output(self, number: int, data: bytes) -> list[do.Effect]:
        held = self._held[number]
        held.output.append(data)
        self._push(held)
        return self._result()

    def output_ended(self, number: int) -> list[do.Effect]:
        """The process has closed its output."""
        held = self._held[number]
        self._end_output(held)
        return self._result()

    def stderr(self, number: int, data: bytes) -> list[do.Effect]:
        held = self._held[number]
        held.stderr.append(data)
        self._push(held)
        return self._result()

    def _end_output(self, held: Held) -> None:
        if held.output_open:
            held.output_open = False
            self._watch(held)
            self._send(say.OutputEnd(held.number, held.output.end))

    def _push(self, held: Held) -> None:
        """Send what the gateway may get now."""
        if self._gateway is not None:
            for offset, data in held.output.chunks():
                self._send(say.Output(held.number, offset, data))
            if not self._congested:
                self._send_stderr(held)
        self._watch(held)

    def _send_stderr(self, held: Held) -> None:
        if self._gateway is not None and (data := held.stderr.unsent()):
            self._send(say.Stderr(held.number, data))

    def _watch(self, held: Held) -> None:
        wanted = held.output_open and held.output.has_room
        if wanted != held.watching:
            held.watching = wanted
            self._do(do.WatchOutput(held.number, wanted))

    # --- input

    def wrote(self, number: int, count: int) -> list[do.Effect]:
        """The pipe took so many bytes of the last chunk; it is full if these were not all."""
        held = self._held[number]
        if held.input:  # else it was closed meanwhile
            whole = count == len(held.input.next_chunk())
            for confirmed in held.input.advance(count):
                self._send(say.Wrote(number, confirmed, True))
            held.writing = not whole
            if whole:
                self._feed(held)
            else:
                self._do(do.AwaitInput(number))
        return self._result()

    def input_ready(self, number: int) -> list[do.Effect]:
        held = self._held[number]
        held.writing = False
        self._feed(held)
        return self._result()

    def input_broken(self, number: int) -> list[do.Effect]:
        self._close_input(self._held[number])
        return self._result()

    def _write(self, held: Held, number: int, key: str, data: bytes) -> None:
        if not held.input_open:
            self._send(say.Wrote(held.number, number, held.input.has_key(key)))
        elif held.input.add(number, key, data):
            self._send(say.Wrote(held.number, number, True))
        else:
            self._feed(held)

    def _feed(self, held: Held) -> None:
        if held.input and not held.writing:
            held.writing = True
            self._do(do.WriteChunk(held.number, held.input.next_chunk()))

    def _close_input(self, held: Held) -> None:
        """Close it at once: what it has not taken is dropped."""
        if held.input_open:
            held.input_open = False
            self._refuse(held)
            self._do(do.CloseChildInput(held.number))

    def _refuse(self, held: Held) -> None:
        for number in held.input.drop():
            self._send(say.Wrote(held.number, number, False))
        held.writing = False

    # --- effects

    def _send(self, message: say.Message) -> None:
        if self._gateway is not None:
            self._do(do.SendFrame(self._gateway, say.pack(message)))

    def _do(self, effect: do.Effect) -> None:
        self._effects.append(effect)

    def _result(self) -> list[do.Effect]:
        made, self._effects = self._effects, []
        return made
