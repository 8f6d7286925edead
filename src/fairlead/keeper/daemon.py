"""The keeper's process: its socket, its connections and its children around the pure state (state.py).

Started by `start_keeper` in client.py with a bare interpreter; the program that is started first ends as soon as the
keeper listens. It imports the standard library and the few modules of ours that need nothing else, all at its start:
the package may be replaced on disk while it runs.
"""

import contextlib
import fcntl
import os
import resource
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Iterator
from typing import assert_never

from fairlead.keeper import address, children
from fairlead.keeper import effects as do
from fairlead.keeper.children import Child
from fairlead.keeper.connections import GatewayConnection, Listener
from fairlead.keeper.frames import Frame, MalformedFrame
from fairlead.keeper.log import KeeperLog
from fairlead.keeper.loop import KeeperLoop, LoopTimer
from fairlead.keeper.state import KeeperState
from fairlead.system.platform import FOLDER


class Daemon:
    """Performs the effects of the state, and reports events to it. `stays`: it does not end when it is idle."""

    def __init__(self, folder: int, listener: socket.socket, *, stays: bool = False) -> None:
        self._folder = folder
        self._listener = listener
        self._stays = stays
        self._socket_file = os.stat(address.NAME, dir_fd=folder)
        self._timers: dict[tuple[str, int], LoopTimer] = {}
        self._children: dict[int, Child] = {}
        self._connections: dict[int, GatewayConnection] = {}
        self._waiting: deque[do.Effect] = deque()
        self._performing = False
        self._count = 0
        self._log = KeeperLog(folder)
        self._loop = KeeperLoop(self._log_error)
        self._state = KeeperState()

    def run(self) -> None:
        self._loop.add_signal_handler(signal.SIGCHLD, self._reap_dead)
        self._log.write(f"listens, Python {sys.version.split()[0]}")
        self._perform(self._state.begin())
        Listener(self._listener, self._loop, self._accepted, self._refused)
        self._loop.run()
        self._loop.close()
        self._log.write("ends: it has no process")

    # --- connections

    def _accepted(self, peer: socket.socket) -> None:
        self._count += 1
        self._connections[self._count] = GatewayConnection(self._count, peer, self._loop, self)

    def _refused(self) -> None:
        self._log.write("a connection of another user is refused")

    def received(self, connection: int, frame: Frame) -> None:
        try:
            effects = self._state.received(connection, frame)
        except Exception as error:  # a mistake of ours must not end the processes
            self._log_error()
            effects = self._state.bad_frame(connection, MalformedFrame(repr(error)))
        self._perform(effects)

    def malformed(self, connection: int, error: MalformedFrame) -> None:
        self._perform(self._state.bad_frame(connection, error))

    def congested(self, connection: int, is_congested: bool) -> None:
        self._perform(self._state.congested(connection, is_congested))

    def closed(self, connection: int) -> None:
        self._connections.pop(connection, None)
        self._perform(self._state.closed(connection))

    # --- effects

    def _perform(self, effects: list[do.Effect]) -> None:
        """Perform effects and those that follow from them, in order, also if called while this is going on."""
        waiting = self._waiting
        waiting.extend(effects)
        if self._performing:
            return
        self._performing = True
        try:
            while waiting:
                try:
                    self._perform_one(waiting.popleft())
                except Exception:
                    self._log_error()
        finally:
            self._performing = False

    def _perform_one(self, effect: do.Effect) -> None:
        match effect:
            case do.SendFrame(connection, frame):
                if connection in self._connections:
                    self._connections[connection].send(frame)
            case do.WriteChunk(number, data):
                self._write(number, data)
            case do.WatchOutput(number, on):
                if number in self._children:
                    self._children[number].watch_output(on)
            case do.AwaitInput(number):
                if number in self._children:
                    self._children[number].await_input()
            case do.CloseChildInput(number):
                if number in self._children:
                    self._children[number].close_input()
            case do.SetSize(number, columns, rows):
                if number in self._children:
                    self._children[number].resize(columns, rows)
            case do.SignalChild(number, step):
                if number in self._children:
                    self._children[number].signal(step)
            case do.SweepChild(number):
                if number in self._children:
                    self._children[number].sweep()
            case do.StartChild(number, command):
                self._start(number, command)
            case do.SetTimer(name, seconds):
                self._set_timer(name, seconds)
            case do.CloseConnection(connection):
                if connection in self._connections:
                    self._connections.pop(connection).close()
            case do.LogLine(text):
                self._log.write(text)
            case do.QuitKeeper():
                if not self._stays:
                    self._quit()
            case _:
                assert_never(effect)

    # --- children

    def _start(self, number: int, command: do.Command) -> None:
        try:
            child = Child(number, children.spawn(command), self._loop, self)
        except OSError as error:
            self._not_started(number, error)
        except Exception as error:
            self._perform(self._state.not_started(number, 0, str(error), None))
        else:
            child.await_start(command.argv[0], self._started)

    def _started(self, child: Child, error: OSError | None) -> None:
        if error is not None:
            self._not_started(child.number, error)
            return
        self._children[child.number] = child
        self._perform(self._state.started(child.number, child.pid, child.started))
        child.listen()
        self._reap_dead()

    def _not_started(self, number: int, error: OSError) -> None:
        self._perform(self._state.not_started(number, error.errno or 0, error.strerror or "", _text(error.filename)))

    def _reap_dead(self) -> None:
        for child in list(self._children.values()):
            if child.is_dead():
                code = child.reap()
                self._perform(self._state.exited(child.number, code, child.is_monitor))
                del self._children[child.number]

    def _write(self, number: int, data: bytes) -> None:
        if number not in self._children:
            return
        try:
            count = self._children[number].write(data)
        except OSError:
            self._perform(self._state.input_broken(number))
        else:
            self._perform(self._state.wrote(number, count))

    def has_output(self, number: int, data: bytes) -> None:
        if not self._performing and (passed := self._state.pass_on(number, data)) is not None:
            self._connections[passed.connection].send(passed.frame)
        else:
            self._perform(self._state.output(number, data))

    def output_has_ended(self, number: int) -> None:
        self._perform(self._state.output_ended(number))

    def has_stderr(self, number: int, data: bytes) -> None:
        self._perform(self._state.stderr(number, data))

    def input_is_ready(self, number: int) -> None:
        self._perform(self._state.input_ready(number))

    # --- time and end

    def _set_timer(self, name: tuple[str, int], seconds: float | None) -> None:
        if (old := self._timers.pop(name, None)) is not None:
            old.cancel()
        if seconds is not None:
            self._timers[name] = self._loop.call_later(seconds, lambda: self._ring(name))

    def _ring(self, name: tuple[str, int]) -> None:
        del self._timers[name]
        self._perform(self._state.timer(name))

    def _quit(self) -> None:
        """Remove the socket, unless it is another keeper's, and end. A gateway that has just connected finds the
        connection closed, and starts another keeper."""
        with contextlib.suppress(OSError), _locked(self._folder):
            found = os.stat(address.NAME, dir_fd=self._folder)
            if (found.st_dev, found.st_ino) == (self._socket_file.st_dev, self._socket_file.st_ino):
                os.unlink(address.NAME, dir_fd=self._folder)
        self._loop.stop()

    def _log_error(self) -> None:
        self._log.write(traceback.format_exc())


def _text(filename: object) -> str | None:
    return os.fsdecode(filename) if isinstance(filename, str | bytes) else None


@contextlib.contextmanager
def _locked(folder: int) -> Iterator[None]:
    """Hold the lock of those who create or remove the socket."""
    lock = os.open(address.LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def listen(data: str) -> tuple[int, socket.socket] | None:
    """Return a descriptor of the data folder and the listening socket, or None if another keeper answers there."""
    folder = os.open(data, FOLDER)
    with address.short_path(data) as path, _locked(folder):
        if _answers(path):
            return None
        with contextlib.suppress(FileNotFoundError):  # of a keeper that is dead
            os.unlink(address.NAME, dir_fd=folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        listener.bind(path)
        os.umask(before)
        # Before the lock is released: from now on the keeper answers.
        listener.listen()
        return folder, listener


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:  # its queue is full
            return True
        except OSError:
            return False
        return True


def _detach() -> None:
    """Leave everything that belongs to the gateway: its session, its streams, the signals of its terminal."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)


def _reset() -> None:
    """Leave the folder where the program was started, and its settings of signals; allow as many files as possible."""
    os.chdir("/")
    # A signal that is ignored would be ignored by the children too; one that is handled is not.
    # Python itself ignores SIGPIPE and SIGXFSZ, and resets them in children.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _report_ready() -> None:
    """Tell the service manager, if it has started us (Type=notify of systemd), that the keeper listens."""
    path = os.environ.pop("NOTIFY_SOCKET", "")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(f"\0{path[1:]}" if path.startswith("@") else path)
            manager.send(b"READY=1")


def main(data: str, *, foreground: bool = False) -> None:
    """Become the keeper of a data folder. Returns in the program that was started, when a keeper listens there.

    In the `foreground` that program is the keeper itself, and stays until it is stopped by a signal."""
    try:
        found = listen(data)
    except OSError as error:
        sys.exit(f"{error.strerror}: {error.filename or data}")
    if foreground:
        _report_ready()
    if found is None:
        if foreground:
            print(f"Another keeper holds {data} already.", file=sys.stderr)
        return
    if not foreground and os.fork():
        return
    _reset()
    if not foreground:
        _detach()
    Daemon(*found, stays=foreground).run()
