"""The table of turns is complete, and the diagram in the documentation matches it."""

from pathlib import Path

from fairlead.agents.claude.interpreter.turns import TABLE, TurnAction, TurnPhase, TurnSignal

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "turns.md"


def test_every_phase_knows_every_signal() -> None:
    assert set(TABLE) == {(phase, sign) for phase in TurnPhase for sign in TurnSignal}


def test_a_turn_opens_only_when_idle_and_ends_only_when_open() -> None:
    for (phase, sign), (after, actions) in TABLE.items():
        is_open = phase is not TurnPhase.IDLE
        for action in actions:
            if action is TurnAction.OPEN:
                assert not is_open, (phase, sign)
                is_open = True
            elif action is TurnAction.END:
                assert is_open, (phase, sign)
                is_open = False
            else:
                assert is_open, (phase, sign)
        assert is_open == (after is not TurnPhase.IDLE), (phase, sign)


def test_a_result_or_an_exit_leaves_no_turn() -> None:
    for phase in TurnPhase:
        assert TABLE[phase, TurnSignal.RESULT][0] is TurnPhase.IDLE
        assert TABLE[phase, TurnSignal.EXIT][0] is TurnPhase.IDLE


def diagram() -> str:
    """The table as a mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {TurnPhase.IDLE}"]
    for (phase, sign), (after, actions) in TABLE.items():
        if actions or phase is not after:
            doing = f" / {', '.join(actions)}" if actions else ""
            lines.append(f"    {phase} --> {after}: {sign}{doing}")
    return "\n".join(lines) + "\n"


def test_the_diagram_in_the_documentation_is_current() -> None:
    assert f"```mermaid\n{diagram()}```" in DOCUMENT.read_text()
