"""The parts of an interpreter that are the same for agents without transcripts. Pure."""

from fairlead.model.agents import Interpretation


class PlainInterpreter:
    """Its subclasses implement `model.agents.Interpreter`: their records come in order, and a turn ends with one."""

    @property
    def deferred_count(self) -> int:
        return 0

    @property
    def background_work(self) -> tuple[str, ...]:
        return ()

    def end_quiet_turn(self) -> Interpretation:
        return Interpretation()

    def flush_unresolved(self, cause: str) -> Interpretation:
        return Interpretation()
