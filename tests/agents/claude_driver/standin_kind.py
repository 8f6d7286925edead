"""Claude's kind with a stand-in for the CLI: it plays scripts without a model."""

import sys

from fairlead.agents.claude.kind import ClaudeKind


class StandinKind(ClaudeKind):
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-m", "fairlead_testing.standin_cli")
