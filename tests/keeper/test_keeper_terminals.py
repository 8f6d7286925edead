"""Rules of the keeper for processes on a terminal."""

from fairlead.keeper import effects as do
from fairlead.keeper import messages as say
from fairlead.keeper.buffers import UNATTENDED, WINDOW
from keeper.test_keeper_state import Bench


def test_terminal_is_read_only_a_window_ahead_of_its_reader() -> None:
    bench = Bench(size=[80, 24])
    bench.tell(say.Attach(1, 0))
    bench.effects = bench.state.output(1, bytes(WINDOW - 1))
    assert not bench.of(do.WatchOutput)
    bench.effects = bench.state.output(1, b"x")
    assert bench.of(do.WatchOutput) == [do.WatchOutput(1, False)]
    bench.tell(say.Taken(1, WINDOW // 2))
    assert bench.of(do.WatchOutput) == [do.WatchOutput(1, True)]


def test_terminal_without_a_reader_has_as_much_room_as_other_processes() -> None:
    bench = Bench(size=[80, 24])
    bench.tell(say.Attach(1, 0))
    bench.state.output(1, bytes(WINDOW))
    bench.leave()
    assert bench.of(do.WatchOutput) == [do.WatchOutput(1, True)]
    bench.effects = bench.state.output(1, bytes(UNATTENDED - WINDOW - 1))
    assert not bench.of(do.WatchOutput)
