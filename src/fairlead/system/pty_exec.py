"""Launcher in a child: makes the terminal on its standard input the controlling terminal, then executes the program.
In a sandbox it starts a new session first: signals of the terminal must not reach the sandbox's monitor.

Started by its path with a bare interpreter, so it imports nothing of ours. A hook between fork and exec would do the
same, but is not safe in a process with threads. Arguments: the descriptor on which a failure is reported (an errno),
the limits of open files (soft:hard, or empty), LC_CTYPE with an equals sign in front (empty if it is not set), and the
command of the program.
"""

import contextlib
import fcntl
import os
import resource
import signal
import sys
import termios


def main(status: int, limits: str, locale: str, argv: list[str]) -> None:
    os.set_inheritable(status, False)
    # The program would inherit this interpreter's locale, and signals ignored by it or by its parent process.
    os.environ.pop("LC_CTYPE", None)
    if locale:
        os.environ["LC_CTYPE"] = locale[1:]
    if limits:
        soft, hard = map(int, limits.split(":"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError):  # it may lead a session already
        os.setsid()
    try:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.execvpe(argv[0], argv, os.environ)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(status, str(error.errno).encode())
    os._exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
