"""`python -m fairlead_testing.standin_cli`: the stand-in on stdin and stdout."""

import sys

from fairlead_testing.standin_cli.flags import parse_flags


def main() -> int:
    options = parse_flags(sys.argv[1:])
    from fairlead_testing.standin_cli.agent import run_agent  # late, so that --version and a bad flag answer at once

    return run_agent(options)


if __name__ == "__main__":
    sys.exit(main())
