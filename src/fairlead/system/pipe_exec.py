"""Launcher inside a sandbox: makes two pipes its standard input and output, then executes the program.

The sandbox's own processes keep their descriptors as long as they live. If those were the program's pipes, we would
never see the program close one. Started by its path with a bare interpreter, so it imports nothing of ours.
Arguments: the descriptors of input and output, the limits of open files (soft:hard, or empty), LC_CTYPE with an equals
sign in front (empty if it is not set), and the command of the program.
"""

import os
import resource
import signal
import sys


def main(given: int, taken: int, limits: str, locale: str, argv: list[str]) -> None:
    for number, fd in enumerate((given, taken)):
        os.dup2(fd, number)
        os.close(fd)
    # The program would inherit this interpreter's locale and its ignored signals.
    os.environ.pop("LC_CTYPE", None)
    if locale:
        os.environ["LC_CTYPE"] = locale[1:]
    if limits:
        soft, hard = map(int, limits.split(":"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, os.environ)
    except OSError as error:
        os.write(2, f"{argv[0]} cannot be started: {error.strerror}\n".encode(errors="surrogateescape"))
    os._exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])
