"""Launcher in a child: prepares the descriptors of the program, then executes it.

`pipes`, in a sandbox: makes two pipes its standard input and output. The sandbox's own processes keep their descriptors
as long as they live. If those were the program's pipes, we would never see the program close one.
`pty`: makes the terminal on its standard input the controlling terminal. In a sandbox it starts a new session first:
signals of the terminal must not reach the sandbox's monitor.

Started by its path with a bare interpreter, so it imports nothing of ours. A hook between fork and exec would do the
same, but is not safe in a process with threads. Arguments: `pipes` or `pty`; descriptors, separated by colons (input
and output, or the one on which a failure is reported as an errno); the limits of open files (soft:hard);
LC_CTYPE with an equals sign in front (empty if it is not set); the command of the program.
"""

import contextlib
import fcntl
import os
import resource
import signal
import sys
import termios


def main(kind: str, descriptors: list[int], limits: str, locale: str, argv: list[str]) -> None:
    # The program would inherit this interpreter's locale, and signals ignored by it or by its parent process.
    os.environ.pop("LC_CTYPE", None)
    if locale:
        os.environ["LC_CTYPE"] = locale[1:]
    soft, hard = map(int, limits.split(":"))
    with contextlib.suppress(ValueError):  # if it was started with a lower limit, which cannot be raised
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    # A keeper that the system should end last does not protect the programs that it holds.
    with contextlib.suppress(OSError, ValueError), open("/proc/self/oom_score_adj", "r+") as score:
        if int(score.read()) < 0:
            score.seek(0)
            score.write("0")
    try:
        if kind == "pipes":
            for target, fd in enumerate(descriptors):
                os.dup2(fd, target)
                os.close(fd)
        else:
            os.set_inheritable(descriptors[0], False)
            if os.getpgrp() != os.getpid():  # else it leads a session already
                os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.execvpe(argv[0], argv, os.environ)
    except OSError as error:
        if kind == "pipes":
            os.write(2, f"{argv[0]} cannot be started: {error.strerror}\n".encode(errors="surrogateescape"))
        else:
            os.write(descriptors[0], str(error.errno).encode())
    os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1], [int(number) for number in sys.argv[2].split(":")], sys.argv[3], sys.argv[4], sys.argv[5:])
