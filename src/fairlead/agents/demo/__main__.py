"""`python -m fairlead.agents.demo`: the demo agent on stdin and stdout. Arguments only name its session in `ps`."""

import sys

from fairlead.agents.demo.agent import run_agent

if __name__ == "__main__":
    sys.exit(run_agent())
