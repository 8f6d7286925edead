"""One process that the keeper holds. Pure."""

from fairlead.keeper import messages as say
from fairlead.keeper.buffers import UNATTENDED, WINDOW, InputQueue, OutputBuffer, StderrTail


class Held:
    def __init__(self, number: int, request: say.SpawnRequest, pid: int, started: str) -> None:
        self.number = number
        self.pid = pid
        self.started = started
        self.tag = request.tag
        self.size = request.size
        self.orphan_s = request.orphan_s
        # A person who stops a flood on a terminal (Ctrl-C) does not want to see megabytes that were read ahead.
        self.output = OutputBuffer(UNATTENDED if request.size is None else WINDOW)
        self.output_open = True
        self.watching = True
        self.input = InputQueue()
        self.input_open = True
        self.writing = False
        self.stderr = StderrTail()
        self.memo = b""
        self.exit: tuple[int, bool] | None = None
        self.abandoned = False
        """No gateway wants its exit."""
        self.steps: list[tuple[str, float]] | None = None
        """The steps of a stop that are still to come; None if it is not being stopped."""

    def entry(self, request: int) -> say.Kept:
        return say.Kept(
            self.number,
            request,
            self.pid,
            self.started,
            self.tag,
            self.output.base,
            None if self.output_open else self.output.end,
            list(self.input.keys),
            say.memo_text(self.memo),
            self.size,
            None if self.exit is None else list(self.exit),
        )
