"""The agent itself: a program that knows nothing of Fairlead. It speaks one JSON object per line on stdin and stdout.

A prompt is a runbook: a line that begins with `$ ` is a command, which runs once it is permitted; every other line is
repeated as a note.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import uuid
from typing import Any

VERSION = "1.0"


class Cancelled(Exception):
    """The turn was cancelled, or the input has ended."""


class Runbook:
    def __init__(self) -> None:
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._running: subprocess.Popen[str] | None = None
        self._cancelled = False
        self._lock = threading.Lock()
        """A command is not started while the turn is being cancelled."""

    def run(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()
        while (message := self._lines.get()) is not None:
            if message["type"] == "open":
                emit("hello", id=str(uuid.uuid4()), session=message["session"] or str(uuid.uuid4()), version=VERSION)
            elif message["type"] == "prompt":
                self._cancelled = False
                try:
                    self._work(message["text"])
                    emit("done", status="completed")
                except Cancelled:
                    emit("done", status="cancelled")

    def _read(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            self._lines.put(message)
            if message["type"] == "cancel":
                self._cancel()
        self._lines.put(None)

    def _cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._running is not None:
                os.killpg(self._running.pid, signal.SIGKILL)

    def _work(self, text: str) -> None:
        for line in text.splitlines():
            if line.startswith("$ "):
                self._command(line[2:])
            else:
                emit("text", text=line + "\n")

    def _command(self, command: str) -> None:
        name = str(uuid.uuid4())
        emit("command", id=name, command=command)
        permit = self._lines.get()
        if permit is None or permit["type"] == "cancel":
            raise Cancelled
        if not permit["allow"]:
            emit("result", id=name, output=permit["reason"] or "The command was denied.", failed=True)
            return
        argv = ["/bin/sh", "-c", command]
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with self._lock:
            if self._cancelled:
                raise Cancelled
            self._running = running = subprocess.Popen(argv, text=True, start_new_session=True, **pipes)
        output, _ = running.communicate()
        with self._lock:
            self._running = None
        if self._cancelled:
            raise Cancelled
        emit("result", id=name, output=output, failed=running.returncode != 0)


def emit(kind: str, **fields: Any) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)


if __name__ == "__main__":
    Runbook().run()
