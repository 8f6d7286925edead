"""A kept process on the gateway's side, with a simulated keeper."""

import asyncio

import pytest

from fairlead.keeper import messages as say
from fairlead.keeper.buffers import WINDOW
from fairlead.keeper.client import KeptProcess
from fairlead.keeper.frames import MalformedFrame
from fairlead.keeper.kept_process import ACK_BYTES
from fairlead.model.agents import Exit
from fairlead.system.pipes import WRITE_AHEAD, PipeClosed
from fairlead.system.process_group import StopTimeouts
from patience import PATIENCE, settled

ENTRY = say.Kept(1, 0, 4711, "mark", {"session": "s"}, 10, None, ["old"], "", None, None)


class Kept:
    """A process of which the test is the keeper."""

    def __init__(self, entry: say.Kept = ENTRY) -> None:
        self.sent: list[say.Message] = []
        self.forgotten: list[int] = []
        self.process = KeptProcess(entry, self.sent.append, self.forgotten.append)
        self.taken: list[bytes] = []
        self.blocked = asyncio.Event()
        self.blocked.set()

    async def take(self, data: bytes) -> None:
        await self.blocked.wait()
        self.taken.append(data)

    async def reading(self, offset: int | None = None) -> "asyncio.Task[None]":
        task = asyncio.create_task(self.process.read(self.take, offset))
        await settled()
        return task

    def receive(self, *messages: say.Message) -> None:
        for message in messages:
            self.process.receive(message)


async def test_output_is_read_from_the_base_to_its_end() -> None:
    kept = Kept()
    reading = await kept.reading()
    assert kept.sent == [say.Attach(1, 10)]
    kept.receive(say.Output(1, 10, b"abc"), say.Output(1, 13, b"de"), say.OutputEnd(1, 16))
    await settled()
    assert kept.taken == [b"abcde"] and not reading.done()
    kept.receive(say.Output(1, 15, b"f"))
    await reading
    assert kept.taken == [b"abcde", b"f"] and kept.sent[-1] == say.Detach(1)


async def test_output_for_an_earlier_reader_is_not_taken_twice() -> None:
    kept = Kept()
    first = await kept.reading()
    kept.receive(say.Output(1, 10, b"abcdef"))
    await settled()
    first.cancel()
    await settled()
    kept.receive(say.Output(1, 16, b"dropped"))
    second = await kept.reading(12)
    # These were sent before the keeper got the second request: one starts too late, one overlaps.
    kept.receive(say.Output(1, 23, b"late"), say.Output(1, 10, b"abcd"))
    kept.receive(say.Output(1, 12, b"cdefgh"), say.Output(1, 14, b"efgh"), say.OutputEnd(1, 18))
    await second
    assert b"".join(kept.taken) == b"abcdef" + b"cdefgh"


async def test_keeper_hears_how_much_was_taken() -> None:
    kept = Kept()
    reading = await kept.reading()
    kept.receive(say.Output(1, 10, bytes(WINDOW // 2 - 1)))
    await settled()
    assert kept.sent == [say.Attach(1, 10)]
    kept.receive(say.Output(1, WINDOW // 2 + 9, b"x"))
    await settled()
    assert kept.sent[-1] == say.Taken(1, WINDOW // 2 + 10)
    kept.process.ack(WINDOW // 2 + 10)
    kept.blocked.clear()
    kept.receive(say.Output(1, WINDOW // 2 + 10, bytes(WINDOW)))
    await settled()
    assert kept.sent[2:] == [say.Ack(1, WINDOW // 2 + 10, None)]
    reading.cancel()


async def test_only_one_reader_at_a_time() -> None:
    kept = Kept()
    reading = await kept.reading()
    with pytest.raises(RuntimeError):
        await kept.process.read(kept.take)
    reading.cancel()


async def test_refused_offset_is_an_error() -> None:
    kept = Kept()
    reading = await kept.reading(3)
    kept.receive(say.AttachRefused(1, 3))
    with pytest.raises(ValueError):
        await reading


async def test_acknowledgement_moves_the_base_and_carries_the_memo() -> None:
    kept = Kept(ENTRY._replace(memo=say.memo_text(b"old")))
    assert kept.process.memo == b"old"
    kept.process.ack(12)
    kept.process.ack(11, b"")
    assert (kept.process.base, kept.process.memo) == (12, b"")
    assert kept.sent == [say.Ack(1, 12, None), say.Ack(1, 11, b"")]


async def test_acknowledgements_that_follow_each_other_are_one_message() -> None:
    kept = Kept()
    kept.process.ack(12)
    kept.process.ack(20)
    assert kept.sent == []
    async with asyncio.timeout(PATIENCE):
        while not kept.sent:
            await asyncio.sleep(0.01)
    assert kept.sent == [say.Ack(1, 20, None)]
    kept.process.ack(20 + ACK_BYTES)
    assert kept.sent[1:] == [say.Ack(1, 20 + ACK_BYTES, None)], "the keeper is not left with much"
    kept.process.ack(21 + ACK_BYTES)
    kept.process.forget()
    assert kept.sent[2:] == [say.Ack(1, 21 + ACK_BYTES, None), say.Forget(1)], "not after the process is dropped"


async def test_write_returns_when_it_is_confirmed_and_remembers_its_key() -> None:
    kept = Kept()
    writing = asyncio.create_task(kept.process.write(b"x", key="new"))
    await settled()
    assert kept.sent == [say.WriteInput(1, 1, "new", b"x")] and "new" not in kept.process.keys
    kept.receive(say.Wrote(1, 1, True))
    await writing
    assert set(kept.process.keys) == {"old", "new"}


async def test_writers_wait_beyond_a_limit_and_nothing_is_offered_meanwhile() -> None:
    kept = Kept()
    first = asyncio.create_task(kept.process.write(bytes(WRITE_AHEAD)))
    second = asyncio.create_task(kept.process.write(b"x"))
    await settled()
    kept.process.offer(b"dropped")
    assert len(kept.sent) == 1
    kept.receive(say.Wrote(1, 1, True))
    await first
    await settled()
    kept.receive(say.Wrote(1, 2, True))
    await second
    kept.process.offer(b"offered")
    assert kept.sent[-1] == say.OfferInput(1, b"offered")


async def test_closed_input_is_an_error_for_all_but_what_was_written() -> None:
    kept = Kept()
    writing = asyncio.create_task(kept.process.write(b"x"))
    await settled()
    kept.process.close_input()
    kept.receive(say.Wrote(1, 1, False))
    with pytest.raises(PipeClosed):
        await writing
    with pytest.raises(PipeClosed):
        await kept.process.write(b"x")
    await kept.process.write(b"x", key="old")
    assert kept.sent[-1] == say.CloseInput(1)


async def test_exit_is_known_at_once_with_its_stderr() -> None:
    kept = Kept()
    ending = asyncio.create_task(kept.process.end(StopTimeouts(1, 2, 3)))
    writing = asyncio.create_task(kept.process.write(b"x"))
    await settled()
    assert kept.sent[0] == say.StopProcess(1, 1, 2, 3)
    kept.receive(say.Stderr(1, b"oops"), say.OutputEnd(1, 99), say.Exited(1, 128 + 9, True))
    assert await ending == Exit(signal=9, stderr="oops")
    assert await kept.process.wait() == Exit(signal=9) and not kept.process.running
    with pytest.raises(PipeClosed):
        await writing
    kept.process.forget()
    assert kept.sent[-1] == say.Forget(1) and kept.forgotten == [1]


async def test_process_that_does_not_die_has_an_empty_exit() -> None:
    kept = Kept()
    for _ in range(2):
        ending = asyncio.create_task(kept.process.end(StopTimeouts()))
        await settled()
        assert not ending.done()
        kept.receive(say.Unkillable(1))
        assert await ending == Exit()


async def test_message_of_a_gateway_makes_no_sense_here() -> None:
    with pytest.raises(MalformedFrame):
        Kept().receive(say.CloseInput(1))
