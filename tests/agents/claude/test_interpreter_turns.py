"""The table of turns is whole, and the diagram in the documentation is the table."""

from pathlib import Path

from fairlead.agents.claude.turns import TABLE, Action, Phase, Signal, diagram

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "turns.md"


def test_every_phase_knows_every_signal() -> None:
    assert set(TABLE) == {(phase, sign) for phase in Phase for sign in Signal}


def test_a_turn_is_opened_when_there_is_none_and_ended_when_there_is_one() -> None:
    for (phase, sign), (after, actions) in TABLE.items():
        is_open = phase is not Phase.IDLE
        for action in actions:
            if action is Action.OPEN:
                assert not is_open, (phase, sign)
                is_open = True
            elif action is Action.END:
                assert is_open, (phase, sign)
                is_open = False
            else:
                assert is_open, (phase, sign)
        assert is_open == (after is not Phase.IDLE), (phase, sign)


def test_a_result_or_an_exit_leaves_no_turn() -> None:
    for phase in Phase:
        assert TABLE[phase, Signal.RESULT][0] is Phase.IDLE
        assert TABLE[phase, Signal.EXIT][0] is Phase.IDLE


def test_the_diagram_in_the_documentation_is_current() -> None:
    assert f"```mermaid\n{diagram()}```" in DOCUMENT.read_text()
