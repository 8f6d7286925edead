"""`python -m fairlead.agents.demo`: the demo agent on stdin and stdout."""

import os
import sys

from fairlead.agents.demo.flags import FlagError, parse_flags


def main() -> int:
    try:
        options = parse_flags(sys.argv[1:])
    except FlagError as error:
        print(error, file=sys.stderr)
        return 1
    if options.version:
        from fairlead.agents.demo.records import VERSION

        print(f"{VERSION} (Fairlead demo agent)")
        return 0
    from fairlead.agents.demo.agent import run_agent  # late, so that --version and a bad flag answer at once

    return run_agent(options, os.environ, os.getcwd())


if __name__ == "__main__":
    sys.exit(main())
