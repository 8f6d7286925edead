"""The commands on a real terminal, with typed keys."""

import pytest

from cli.cli_processes import SGR, Terminal, environment
from cli.conftest import CliGateway, Fairlead

CTRL_C, CTRL_D = "\x03", "\x04"


def on_terminal(gateway: CliGateway, *words: str, **more: str) -> Terminal:
    return Terminal(environment(gateway.data, **more), gateway.project, *words)


def test_a_permission_is_asked_and_answered(gateway: CliGateway) -> None:
    with on_terminal(gateway, "run", "SCRIPT:bash echo one") as terminal:
        terminal.wait_for("Allow?")
        terminal.type("perhaps\n")
        terminal.wait_for("Please type y or n.")
        terminal.type("y\n")
        terminal.wait_for("completed")
        assert terminal.end() == 0


def test_changed_input_is_executed(gateway: CliGateway) -> None:
    editor = "sed -i s/one/two/"
    with on_terminal(gateway, "run", "SCRIPT:bash echo one", EDITOR=editor) as terminal:
        terminal.wait_for("Allow?")
        terminal.type("e\n")
        terminal.wait_for("└ two")
        assert terminal.end() == 0


@pytest.mark.parametrize("editor", ["true", "false", "touch", "sh -c 'rm $0'", "sh -c 'echo {} > $0; exit 1'"])
def test_leaving_the_editor_without_a_change_asks_again(gateway: CliGateway, editor: str) -> None:
    with on_terminal(gateway, "run", "SCRIPT:bash echo one", EDITOR=editor) as terminal:
        terminal.wait_for("Allow?")
        terminal.type("e\n")
        terminal.wait_for("nothing was allowed")
        terminal.wait_for("Allow?")
        terminal.type("n not like that\n")
        terminal.wait_for("not like that")
        assert terminal.end() == 0


def test_answer_always_is_remembered(gateway: CliGateway) -> None:
    with on_terminal(gateway, "run", "SCRIPT:twice") as terminal:
        terminal.wait_for("[a]lways")
        terminal.type("a\n")
        terminal.wait_for("Allow?")
        terminal.type("n not this one\n")
        terminal.wait_for("not this one")
        assert terminal.end() == 0


def test_a_question_is_answered_by_its_number(gateway: CliGateway) -> None:
    with on_terminal(gateway, "run", "SCRIPT:question") as terminal:
        terminal.wait_for("Colour: a number")
        terminal.type("2\n")
        terminal.wait_for('"Which colour?"="Blue"')
        assert terminal.end() == 0


def test_an_answer_from_elsewhere_ends_the_question_here(gateway: CliGateway, fairlead: Fairlead) -> None:
    with on_terminal(gateway, "run", "SCRIPT:bash echo elsewhere") as terminal:
        terminal.wait_for("Allow?")
        session = fairlead("ls", "--json").lines[0]["session"]
        assert fairlead("permit", session, "--allow").code == 0
        terminal.wait_for("completed")
        assert terminal.end() == 0


def test_ctrl_c_interrupts_the_turn(gateway: CliGateway) -> None:
    with on_terminal(gateway, "run", "SCRIPT:slow 4000") as terminal:
        terminal.wait_for("tick tick")
        terminal.type(CTRL_C)
        terminal.wait_for("cancelled")
        assert terminal.end() == 130


def test_second_ctrl_c_exits_before_the_first_took_effect(gateway: CliGateway, fairlead: Fairlead) -> None:
    with on_terminal(gateway, "run", "SCRIPT:slow 4000") as terminal:
        terminal.wait_for("tick tick")
        terminal.type(CTRL_C + CTRL_C)
        assert terminal.end() == 130


def test_ctrl_c_withdraws_a_message_that_waits_behind_another_turn(gateway: CliGateway, fairlead: Fairlead) -> None:
    with on_terminal(gateway, "run", "SCRIPT:slow 4000") as first:
        first.wait_for("tick tick")
        session = fairlead("ls", "--json").lines[0]["session"]
        with on_terminal(gateway, "run", "SCRIPT:text never", "--session", session) as second:
            second.wait_for("waits for its turn")
            second.type(CTRL_C)
            second.wait_for("was cancelled (")
            assert second.end() == 130
        first.wait_for("tick")
        first.type(CTRL_C)
        assert first.end() == 130
    assert "never" not in [line.get("text") for line in fairlead("logs", session, "--json").lines]


def test_attach_shows_the_conversation_and_sends_typed_messages(gateway: CliGateway, fairlead: Fairlead) -> None:
    session = fairlead("run", "--json", "SCRIPT:text before").lines[0]["session"]
    with on_terminal(gateway, "attach", session[:8]) as terminal:
        terminal.wait_for("Hello from the scripted model. before")
        terminal.wait_for("Ctrl-D leaves")
        terminal.type("SCRIPT:text and after\n")
        terminal.wait_for("Hello from the scripted model. and after")
        terminal.wait_for("completed")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_attach_asks_for_requests_that_were_already_pending(gateway: CliGateway, fairlead: Fairlead) -> None:
    session = fairlead("run", "--json", "SCRIPT:bash echo waited").lines[0]["session"]
    with on_terminal(gateway, "attach", session) as terminal:
        terminal.wait_for("Allow?")
        terminal.type("y\n")
        terminal.wait_for("Done. The tool said: waited")
        terminal.wait_for("completed")
        terminal.type(CTRL_C)
        assert terminal.end() == 130


def test_permit_asks_on_a_terminal(gateway: CliGateway, fairlead: Fairlead) -> None:
    session = fairlead("run", "--json", "SCRIPT:bash echo asked").lines[0]["session"]
    with on_terminal(gateway, "permit", session) as terminal:
        terminal.wait_for("command: echo asked")
        terminal.wait_for("Allow?")
        terminal.type("y\n")
        terminal.wait_for("Allowed.")
        assert terminal.end() == 0


@pytest.mark.parametrize("quiet", [False, True], ids=["colour", "NO_COLOR"])
def test_nothing_but_our_own_colours_reaches_the_terminal(gateway: CliGateway, quiet: bool) -> None:
    hostile = "SCRIPT:text \x1b]52;c;ZXZpbA==\x07\x1b]8;;https://evil.example/\x1b\\link\x1b]8;;\x1b\\\x1b[2J\x9b2J"
    more = {"NO_COLOR": "1"} if quiet else {}
    with on_terminal(gateway, "run", hostile, **more) as terminal:
        terminal.wait_for("completed")
        assert terminal.end() == 0
    assert bool(SGR.search(terminal.seen)) is not quiet
    assert "link" in terminal.text
    assert all(character.isprintable() or character in "\r\n" for character in terminal.text)
