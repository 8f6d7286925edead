"""`python -m fairlead.agents.demo`: the demo agent on stdin and stdout."""

import sys

from fairlead.agents.demo.flags import parse_flags


def main() -> int:
    options = parse_flags(sys.argv[1:])
    from fairlead.agents.demo.agent import run_agent  # late, so that --version and a bad flag answer at once

    return run_agent(options)


if __name__ == "__main__":
    sys.exit(main())
