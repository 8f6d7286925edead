"""The keeper's state: which effects follow from the events of its connections, its children and its timers."""

from typing import Any, TypeVar

import pytest

from fairlead.keeper import effects as do
from fairlead.keeper import messages as say
from fairlead.keeper.buffers import ATTENDED, CHUNK, KEYS, STDERR_TAIL, UNATTENDED, WINDOW
from fairlead.keeper.frames import Frame, FrameDecoder
from fairlead.keeper.state import IDLE_SECONDS, ORPHAN_STEPS, KeeperState

E = TypeVar("E")
SPAWN = say.SpawnRequest(7, [], ["cat"], {}, "/", {"session": "s"}, None, 3600.0, [1024, 4096])


class Bench:
    """A state with a gateway (connection 1) and one process (number 1). `effects` are those of the last event."""

    def __init__(self, **changes: Any) -> None:
        self.state = KeeperState()
        self.effects: list[do.Effect] = self.state.begin()
        self.tell(say.Hello())
        self.tell(SPAWN._replace(**changes))
        self.effects = self.state.started(1, 4711, "mark")

    def tell(self, message: say.Message, connection: int = 1) -> None:
        (frame,) = FrameDecoder().feed(say.pack(message))
        self.effects = self.state.received(connection, frame)

    def leave(self) -> None:
        self.effects = self.state.closed(1)

    def of(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def answers(self) -> list[say.Message]:
        return [say.unpack(frame) for each in self.of(do.SendFrame) for frame in FrameDecoder().feed(each.frame)]


def test_new_gateway_gets_a_list_of_all_that_is_kept() -> None:
    bench = Bench(size=[80, 24])
    bench.state.output(1, b"0123456789")
    bench.tell(say.Ack(1, 4, b"memo"))
    bench.tell(say.WriteInput(1, 1, "key", b"data"))
    bench.leave()
    bench.tell(say.Hello(), connection=2)
    assert bench.answers == [
        say.Kept(1, 0, 4711, "mark", {"session": "s"}, 4, None, ["key"], say.memo_text(b"memo"), [80, 24], None),
        say.Listed(),
    ]


def test_new_gateway_ends_the_old_connection() -> None:
    bench = Bench()
    bench.tell(say.Hello(), connection=2)
    assert bench.of(do.CloseConnection) == [do.CloseConnection(1)]
    bench.tell(say.Attach(1, 0), connection=1)
    assert bench.of(do.CloseConnection) == [do.CloseConnection(1)] and not bench.answers
    bench.effects = bench.state.closed(1)
    assert not bench.effects
    bench.tell(say.Attach(1, 0), connection=2)
    bench.effects = bench.state.output(1, b"x")
    assert bench.of(do.SendFrame)[0].connection == 2


def test_connection_without_a_hello_changes_nothing() -> None:
    bench = Bench()
    bench.effects = bench.state.closed(2)
    assert not bench.effects
    bench.tell(say.Quit(), connection=3)
    assert bench.of(do.CloseConnection) == [do.CloseConnection(3)]
    bench.tell(say.Attach(1, 0))
    bench.effects = bench.state.output(1, b"x")
    assert bench.answers == [say.Output(1, 0, b"x")]


@pytest.mark.parametrize(
    "message",
    [
        say.Hello(),
        SPAWN._replace(argv=[]),
        SPAWN._replace(argv=[1]),
        SPAWN._replace(env={"A": 1}),
        SPAWN._replace(size=[0, 24]),
        SPAWN._replace(size=[80]),
        SPAWN._replace(limits=[1]),
        say.Resize(1, 1 << 16, 24),
        say.Ack(1, 1, None),
        say.Exited(1, 0, False),
        say.Listed(),
    ],
)
def test_bad_message_ends_the_connection_and_nothing_else(message: say.Message) -> None:
    bench = Bench()
    bench.tell(message)
    assert bench.of(do.CloseConnection) == [do.CloseConnection(1)]
    assert not bench.of(do.SignalChild) and not bench.of(do.StartChild)
    bench.tell(say.Hello(), connection=2)
    assert isinstance(bench.answers[0], say.Kept)


def test_bad_frame_ends_the_connection() -> None:
    bench = Bench()
    bench.effects = bench.state.received(1, Frame(255, 0, b""))
    assert bench.of(do.CloseConnection) == [do.CloseConnection(1)]


def test_messages_about_an_unknown_process_are_dropped_and_writes_refused() -> None:
    bench = Bench()
    bench.tell(say.Attach(9, 0))
    assert not bench.effects
    bench.tell(say.WriteInput(9, 3, "", b"x"))
    assert bench.answers == [say.Wrote(9, 3, False)]


# --- output


def test_output_is_sent_from_the_attached_offset_and_kept_until_the_ack() -> None:
    bench = Bench()
    bench.state.output(1, b"0123456789")
    bench.tell(say.Attach(1, 3))
    assert bench.answers == [say.Output(1, 3, b"3456789")]
    bench.tell(say.Ack(1, 5, None))
    bench.tell(say.Attach(1, 5))
    assert bench.answers == [say.Output(1, 5, b"56789")]
    for offset in (4, 11, -1):
        bench.tell(say.Attach(1, offset))
        assert bench.answers == [say.AttachRefused(1, offset)]


def test_process_waits_when_nobody_reads_and_goes_on_after_the_ack() -> None:
    bench = Bench()
    bench.effects = bench.state.output(1, bytes(UNATTENDED - 1))
    assert not bench.effects
    bench.effects = bench.state.output(1, b"x")
    assert bench.effects == [do.WatchOutput(1, False)]
    bench.tell(say.Ack(1, 1, None))
    assert bench.effects == [do.WatchOutput(1, True)]


def test_reader_that_takes_everything_may_leave_more_unacknowledged() -> None:
    bench = Bench()
    bench.tell(say.Attach(1, 0))
    sent = 0
    while sent < ATTENDED:
        bench.effects = bench.state.output(1, bytes(CHUNK))
        sent += CHUNK
        assert bool(bench.of(do.WatchOutput)) is (sent == ATTENDED)
        bench.tell(say.Taken(1, sent))
    bench.leave()
    assert not bench.of(do.WatchOutput)
    bench.tell(say.Hello(), connection=2)
    bench.tell(say.Ack(1, CHUNK, None), connection=2)
    assert not bench.of(do.WatchOutput)
    bench.tell(say.Ack(1, sent, None), connection=2)
    assert bench.of(do.WatchOutput) == [do.WatchOutput(1, True)]


def test_output_that_a_reader_waits_for_is_passed_on_as_it_would_be_sent() -> None:
    """Until it has to wait: nobody reads, the reader lags, or the process must not write more."""
    bench, other = Bench(), Bench()
    assert bench.state.pass_on(1, b"x") is None, "nobody reads"
    for each in (bench, other):
        each.tell(say.Attach(1, 0))
    for number in range(WINDOW // CHUNK):
        passed = bench.state.pass_on(1, bytes(CHUNK))
        assert [passed] == other.state.output(1, bytes(CHUNK)), number
    assert bench.state.pass_on(1, b"x") is None, "the window is full"
    for each in (bench, other):
        each.effects = each.state.output(1, b"more")
        assert not each.answers
        each.tell(say.Taken(1, WINDOW))
        assert each.answers == [say.Output(1, WINDOW, b"more")]
        each.tell(say.Taken(1, WINDOW + 4))
    assert bench.state.pass_on(1, bytes(CHUNK + 1)) is None, "more than one frame has"
    bench.leave()
    assert bench.state.pass_on(1, b"x") is None, "there is no gateway"


def test_output_that_makes_the_process_wait_is_not_passed_on() -> None:
    bench = Bench(size=[80, 24])
    bench.tell(say.Attach(1, 0))
    for _ in range(WINDOW // CHUNK - 1):
        assert bench.state.pass_on(1, bytes(CHUNK)) is not None
    assert bench.state.pass_on(1, bytes(CHUNK)) is None
    bench.effects = bench.state.output(1, bytes(CHUNK))
    assert bench.of(do.WatchOutput) == [do.WatchOutput(1, False)]


def test_reader_that_stands_still_gets_a_window_and_the_process_waits() -> None:
    bench = Bench()
    bench.tell(say.Attach(1, 0))
    bench.effects = bench.state.output(1, bytes(UNATTENDED))
    assert sum(len(each.data) for each in bench.answers if isinstance(each, say.Output)) == WINDOW
    assert bench.of(do.WatchOutput) == [do.WatchOutput(1, False)]
    bench.tell(say.Taken(1, 10))
    assert bench.answers == [say.Output(1, WINDOW, bytes(10))]
    assert bench.of(do.WatchOutput) == [do.WatchOutput(1, True)]


def test_reader_is_sent_nothing_that_is_stored_already() -> None:
    bench = Bench()
    bench.tell(say.Attach(1, 0))
    bench.state.output(1, bytes(WINDOW) + b"skipped" + b"rest")
    bench.tell(say.Ack(1, WINDOW + 7, None))
    assert bench.answers == [say.Output(1, WINDOW + 7, b"rest")]


def test_reader_that_stands_still_does_not_hold_up_another_process() -> None:
    bench = Bench()
    bench.tell(SPAWN)
    bench.state.started(2, 4712, "mark")
    bench.tell(say.Attach(1, 0))
    bench.tell(say.Attach(2, 0))
    bench.state.output(1, bytes(UNATTENDED))
    bench.effects = bench.state.output(2, b"x")
    assert bench.answers == [say.Output(2, 0, b"x")]


def test_reader_that_detaches_gets_nothing_more() -> None:
    bench = Bench()
    bench.tell(say.Attach(1, 0))
    bench.tell(say.Detach(1))
    bench.effects = bench.state.output(1, b"x")
    assert not bench.answers


def test_end_of_the_output_is_reported_with_its_offset() -> None:
    bench = Bench()
    bench.state.output(1, b"123")
    bench.effects = bench.state.output_ended(1)
    assert bench.answers == [say.OutputEnd(1, 3)]
    bench.tell(say.Hello(), connection=2)
    assert isinstance(found := bench.answers[0], say.Kept) and found.end == 3


def test_stderr_is_sent_whole_once_and_its_end_again_to_a_new_gateway() -> None:
    bench = Bench()
    bench.effects = bench.state.stderr(1, b"one ")
    assert bench.answers == [say.Stderr(1, b"one ")]
    bench.state.congested(1, True)
    bench.effects = bench.state.stderr(1, b"two " * STDERR_TAIL)
    assert not bench.answers
    bench.effects = bench.state.congested(1, False)
    assert bench.answers == [say.Stderr(1, (b"two " * STDERR_TAIL)[:STDERR_TAIL])]
    bench.state.stderr(1, b"three")
    bench.tell(say.Hello(), connection=2)
    assert bench.answers[1:] == [say.Stderr(1, (b"two " * STDERR_TAIL)[5:STDERR_TAIL] + b"three"), say.Listed()]


# --- input


def test_input_is_confirmed_when_the_pipe_took_it_all() -> None:
    bench = Bench()
    bench.tell(say.WriteInput(1, 5, "", b"12345"))
    assert bench.effects == [do.WriteChunk(1, b"12345")]
    bench.effects = bench.state.wrote(1, 2)
    assert bench.effects == [do.AwaitInput(1)]
    bench.effects = bench.state.input_ready(1)
    assert bench.effects == [do.WriteChunk(1, b"345")]
    bench.effects = bench.state.wrote(1, 3)
    assert bench.answers == [say.Wrote(1, 5, True)]


def test_large_input_is_written_in_pieces_and_in_order() -> None:
    bench = Bench()
    bench.tell(say.WriteInput(1, 1, "", b"a" * (CHUNK + 1)))
    bench.tell(say.WriteInput(1, 2, "", b""))
    bench.tell(say.WriteInput(1, 3, "", b"c"))
    bench.effects = bench.state.wrote(1, CHUNK)
    assert bench.effects == [do.WriteChunk(1, b"a")]
    bench.effects = bench.state.wrote(1, 1)
    assert bench.answers == [say.Wrote(1, 1, True)] and bench.of(do.WriteChunk) == [do.WriteChunk(1, b"")]
    bench.effects = bench.state.wrote(1, 0)
    assert bench.answers == [say.Wrote(1, 2, True)] and bench.of(do.WriteChunk) == [do.WriteChunk(1, b"c")]


def test_key_is_written_once_also_while_it_waits_and_for_the_next_gateway() -> None:
    bench = Bench()
    bench.tell(say.WriteInput(1, 1, "k", b"data"))
    bench.tell(say.WriteInput(1, 2, "k", b"data"))
    assert not bench.effects
    bench.leave()
    bench.tell(say.Hello(), connection=2)
    bench.tell(say.WriteInput(1, 3, "k", b"data"), connection=2)
    assert not bench.effects
    bench.effects = bench.state.wrote(1, 4)
    assert bench.answers == [say.Wrote(1, 3, True)]
    bench.tell(say.WriteInput(1, 4, "k", b"data"), connection=2)
    assert bench.effects == [do.SendFrame(2, say.pack(say.Wrote(1, 4, True)))]


def test_only_the_last_keys_are_remembered() -> None:
    bench = Bench()
    for number in range(KEYS + 1):
        bench.tell(say.WriteInput(1, number, f"k{number}", b"x"))
        bench.state.wrote(1, 1)
    bench.tell(say.WriteInput(1, 1, "k1", b"x"))
    assert bench.answers == [say.Wrote(1, 1, True)]
    bench.tell(say.WriteInput(1, 1, "k0", b"x"))
    assert bench.of(do.WriteChunk)
    bench.tell(say.Hello(), connection=2)
    assert isinstance(found := bench.answers[0], say.Kept) and len(found.keys) == KEYS


def test_offered_input_is_dropped_while_other_input_waits() -> None:
    bench = Bench()
    bench.tell(say.OfferInput(1, b"a"))
    assert bench.effects == [do.WriteChunk(1, b"a")]
    bench.tell(say.OfferInput(1, b"b"))
    bench.effects = bench.state.wrote(1, 1)
    assert not bench.effects


def test_closed_input_refuses_what_waits_and_what_comes() -> None:
    bench = Bench()
    bench.tell(say.WriteInput(1, 1, "done", b"x"))
    bench.state.wrote(1, 1)
    bench.tell(say.WriteInput(1, 2, "waits", b"xyz"))
    bench.state.wrote(1, 1)
    bench.tell(say.CloseInput(1))
    assert bench.answers == [say.Wrote(1, 2, False)] and bench.of(do.CloseChildInput) == [do.CloseChildInput(1)]
    for key, ok in (("done", True), ("waits", False), ("", False)):
        bench.tell(say.WriteInput(1, 3, key, b"x"))
        assert bench.answers == [say.Wrote(1, 3, ok)]
    bench.tell(say.OfferInput(1, b"x"))
    assert not bench.effects


def test_broken_pipe_closes_the_input() -> None:
    bench = Bench()
    bench.tell(say.WriteInput(1, 2, "", b"x"))
    bench.effects = bench.state.input_broken(1)
    assert bench.answers == [say.Wrote(1, 2, False)] and bench.of(do.CloseChildInput) == [do.CloseChildInput(1)]


def test_terminal_has_no_input_to_close() -> None:
    bench = Bench(size=[80, 24])
    bench.tell(say.CloseInput(1))
    assert not bench.effects


def test_size_of_a_terminal_is_set_and_listed() -> None:
    bench = Bench(size=[80, 24])
    bench.tell(say.Resize(1, 100, 30))
    assert bench.effects == [do.SetSize(1, 100, 30)]
    bench.tell(say.Hello(), connection=2)
    assert isinstance(found := bench.answers[0], say.Kept) and found.size == [100, 30]
    pipes = Bench()
    pipes.tell(say.Resize(1, 100, 30))
    assert not pipes.effects


# --- start and end


def test_failed_start_is_reported_to_the_gateway_that_asked() -> None:
    bench = Bench()
    bench.tell(SPAWN)
    assert bench.of(do.StartChild)[0].number == 2
    bench.effects = bench.state.not_started(2, 2, "No such file or directory", "/x")
    assert bench.answers == [say.SpawnFailed(7, 2, "No such file or directory", "/x")]


def test_process_whose_gateway_left_during_its_start_is_found_by_the_next() -> None:
    bench = Bench()
    bench.tell(SPAWN)
    bench.leave()
    bench.effects = bench.state.started(2, 4712, "mark")
    assert do.SetTimer(("orphan", 2), 3600.0) in bench.effects
    bench.tell(say.Hello(), connection=2)
    assert [each.process for each in bench.answers if isinstance(each, say.Kept)] == [1, 2]


def test_process_that_the_next_gateway_did_not_find_is_ended_and_forgotten() -> None:
    bench = Bench()
    bench.tell(SPAWN)
    bench.tell(say.Hello(), connection=2)
    bench.effects = bench.state.started(2, 4712, "mark")
    assert do.CloseChildInput(2) in bench.effects
    bench.state.exited(2, 0, False)
    bench.tell(say.Hello(), connection=3)
    assert [each.process for each in bench.answers if isinstance(each, say.Kept)] == [1]


def test_stop_goes_from_step_to_step_and_ends_with_the_process() -> None:
    bench = Bench()
    bench.tell(say.StopProcess(1, 5, 3, 1))
    assert bench.effects == [do.CloseChildInput(1), do.SetTimer(("step", 1), 5)]
    bench.tell(say.StopProcess(1, 0, 0, 0))
    assert not bench.effects
    bench.effects = bench.state.timer(("step", 1))
    assert bench.effects == [do.SignalChild(1, "terminate"), do.SetTimer(("step", 1), 3)]
    bench.leave()
    bench.effects = bench.state.timer(("step", 1))
    assert bench.effects == [do.SignalChild(1, "kill"), do.SetTimer(("step", 1), 1)]
    bench.effects = bench.state.exited(1, -9, False)
    assert do.SetTimer(("step", 1), None) in bench.effects and do.SweepChild(1) in bench.effects


def test_terminal_is_stopped_by_a_hangup_first() -> None:
    bench = Bench(size=[80, 24])
    bench.tell(say.StopProcess(1, 5, 3, 1))
    assert bench.effects == [do.SignalChild(1, "hangup"), do.SetTimer(("step", 1), 5)]


def test_process_that_does_not_die_is_reported_and_can_be_stopped_again() -> None:
    bench = Bench()
    bench.tell(say.StopProcess(1, 0, 0, 0))
    for _ in range(3):
        bench.effects = bench.state.timer(("step", 1))
    assert bench.answers == [say.Unkillable(1)] and do.SweepChild(1) in bench.effects
    bench.tell(say.StopProcess(1, 5, 0, 0))
    assert bench.effects == [do.SetTimer(("step", 1), 5)]


def test_exit_comes_after_the_last_output_and_stderr() -> None:
    bench = Bench()
    bench.tell(say.Attach(1, 0))
    bench.state.congested(1, True)
    bench.tell(say.WriteInput(1, 4, "", b"x"))
    bench.state.output(1, b"last")
    bench.state.stderr(1, b"oops")
    bench.effects = bench.state.exited(1, 3, True)
    assert bench.answers == [
        say.Wrote(1, 4, False),
        say.OutputEnd(1, 4),
        say.Stderr(1, b"oops"),
        say.Exited(1, 3, True),
    ]


def test_exit_waits_for_the_next_gateway_until_it_is_forgotten() -> None:
    bench = Bench()
    bench.leave()
    bench.state.output(1, b"last")
    bench.effects = bench.state.exited(1, -15, False)
    assert do.SetTimer(("orphan", 1), 3600.0) in bench.effects
    bench.tell(say.Hello(), connection=2)
    assert isinstance(found := bench.answers[0], say.Kept) and (found.exit, found.end) == ([-15, False], 4)
    bench.tell(say.Attach(1, 0), connection=2)
    assert bench.answers == [say.Output(1, 0, b"last")]
    bench.tell(say.Forget(1), connection=2)
    bench.tell(say.Hello(), connection=3)
    assert bench.answers == [say.Listed()]


def test_running_process_that_is_forgotten_is_dropped_at_its_end() -> None:
    bench = Bench()
    bench.tell(say.Forget(1))
    bench.state.exited(1, 0, False)
    bench.tell(say.Hello(), connection=2)
    assert bench.answers == [say.Listed()]


# --- time


def test_process_without_a_gateway_is_stopped_and_later_forgotten() -> None:
    bench = Bench(orphan_s=15.0)
    bench.leave()
    assert do.SetTimer(("orphan", 1), 15.0) in bench.effects
    bench.effects = bench.state.timer(("orphan", 1))
    assert do.CloseChildInput(1) in bench.effects and do.SetTimer(("step", 1), ORPHAN_STEPS[0]) in bench.effects
    bench.effects = bench.state.exited(1, 0, False)
    assert do.SetTimer(("orphan", 1), 15.0) in bench.effects
    bench.effects = bench.state.timer(("orphan", 1))
    assert do.SetTimer(("idle", 0), IDLE_SECONDS) in bench.effects


def test_gateway_that_returns_stops_the_timers() -> None:
    bench = Bench()
    bench.leave()
    bench.tell(say.Hello(), connection=2)
    assert do.SetTimer(("orphan", 1), None) in bench.effects and do.SetTimer(("idle", 0), None) in bench.effects


def test_keeper_ends_when_it_has_had_no_process_and_no_gateway_for_a_while() -> None:
    state = KeeperState()
    assert state.begin() == [do.SetTimer(("idle", 0), IDLE_SECONDS)]
    assert state.timer(("idle", 0)) == [do.QuitKeeper()]


def test_keeper_with_a_process_does_not_end() -> None:
    bench = Bench()
    bench.leave()
    assert not [each for each in bench.of(do.SetTimer) if each.name[0] == "idle"]
    bench.tell(say.Hello(), connection=2)
    bench.tell(say.Quit(), connection=2)
    assert not bench.of(do.QuitKeeper)
    bench.state.exited(1, 0, False)
    bench.tell(say.Quit(), connection=2)
    assert not bench.of(do.QuitKeeper)
    bench.tell(say.Forget(1), connection=2)
    bench.tell(say.Quit(), connection=2)
    assert bench.effects == [do.QuitKeeper()]


def test_keeper_does_not_end_while_a_process_is_being_started() -> None:
    state = KeeperState()
    for message in (say.Hello(), SPAWN, say.Quit()):
        (frame,) = FrameDecoder().feed(say.pack(message))
        effects = state.received(1, frame)
    assert not effects
    assert not [each for each in state.closed(1) if isinstance(each, do.SetTimer)]
    assert do.SetTimer(("idle", 0), IDLE_SECONDS) in state.not_started(1, 2, "No such file", None)
