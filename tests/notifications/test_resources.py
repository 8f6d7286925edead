"""Resources: how they are stored, the effects of a change, and the limits on their number."""

import asyncio
import stat
from pathlib import Path

import pytest

from fairlead.model.errors import BadRequest, Damaged, NotFound, Stale, TooMany
from fairlead.notifications import resources
from fairlead.notifications.api.cognova import HookEvent, MemoryResource, Reminder, ScheduledAgent, Secret, Task
from fairlead.notifications.cron import next_due
from fairlead.notifications.secret_box import FILE
from notifications.harness import NotificationsHarness, open_harness

NOON = 1_699_963_200_000  # 2023-11-14 12:00 UTC


async def test_a_secret_is_encrypted_at_rest_with_a_key_that_only_its_owner_can_read(
    harness: NotificationsHarness,
) -> None:
    await harness.service.resources.add(Secret(id="1", key="API_KEY"), "s3cret")
    key = harness.folder / FILE
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    await harness.store.close()
    for path in (harness.folder / "data").iterdir():
        if path.is_file():
            assert b"s3cret" not in path.read_bytes()


async def test_a_secret_is_decrypted_after_a_restart_and_not_by_another_key(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.service.resources.add(Secret(id="1", key="API_KEY"), "s3cret")
    async with open_harness(tmp_path) as harness:
        assert await harness.service.resources.reveal("API_KEY") == "s3cret"
    (tmp_path / FILE).write_bytes(bytes(32))
    async with open_harness(tmp_path) as harness:
        with pytest.raises(Damaged, match="put back the key file"):
            await harness.service.resources.reveal("API_KEY")
    (tmp_path / FILE).write_bytes(b"short")
    async with open_harness(tmp_path) as harness:
        with pytest.raises(Damaged, match="is not a key"):
            await harness.service.resources.reveal("API_KEY")


async def test_equal_secrets_have_different_ciphertexts(harness: NotificationsHarness) -> None:
    one = await harness.service.resources.add(Secret(id="1", key="A"), "same")
    other = await harness.service.resources.add(Secret(id="2", key="B"), "same")
    assert one.sealed != other.sealed


async def test_concurrent_adds_of_one_name_succeed_once(harness: NotificationsHarness) -> None:
    made = await asyncio.gather(
        *(harness.service.resources.add(Secret(id=str(number), key="A"), "x") for number in range(5)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Secret) for one in made) == 1
    assert sum(isinstance(one, Stale) for one in made) == 4


async def test_two_changes_at_once_are_both_kept(harness: NotificationsHarness) -> None:
    await harness.service.resources.add(Task(id="t", title="a"))
    await asyncio.gather(
        harness.service.resources.edit(Task, "t", {"title": "b"}),
        harness.service.resources.edit(Task, "t", {"description": "d"}),
    )
    task = await harness.service.resources.get(Task, "t")
    assert (task.title, task.description) == ("b", "d")


async def test_a_task_has_a_completion_time_only_while_it_is_done(harness: NotificationsHarness) -> None:
    await harness.service.resources.add(Task(id="t", title="a", status="done"))
    first = (await harness.service.resources.get(Task, "t")).completed_at
    await harness.clock.advance(60)
    assert (await harness.service.resources.edit(Task, "t", {"title": "b"})).completed_at == first
    assert (await harness.service.resources.edit(Task, "t", {"status": "todo"})).completed_at is None
    assert (await harness.service.resources.edit(Task, "t", {"status": "done"})).completed_at == harness.clock.now_ms()


async def test_the_number_of_stored_resources_is_limited(
    harness: NotificationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "MOST", 3)
    for number in range(5):
        # Items that are added automatically: the oldest are dropped.
        await harness.service.resources.add(HookEvent(id=str(number), event_type="SessionStart"))
    assert [one.id for one in await harness.service.resources.list(HookEvent)] == ["4", "3", "2"]
    for number in range(3):
        await harness.service.resources.add(MemoryResource(id=str(number), content="c", chunk_type="fact"))
    with pytest.raises(TooMany):
        await harness.service.resources.add(MemoryResource(id="9", content="c", chunk_type="fact"))
    await harness.service.resources.remove(MemoryResource, "0")
    await harness.service.resources.add(MemoryResource(id="9", content="c", chunk_type="fact"))


async def test_many_resources_are_read_in_pages_and_in_order(
    harness: NotificationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "PAGE", 2)
    for number in range(7):
        await harness.service.resources.add(Task(id=str(number), title="t"))
    await harness.service.resources.remove(Task, "3")
    assert [one.id for one in await harness.service.resources.list(Task)] == ["6", "5", "4", "2", "1", "0"]
    assert [one.id for one in await harness.service.resources.list(Task, lambda one: int(one.id) % 2 == 0, 2)] == [
        "6",
        "4",
    ]
    assert len(await harness.service.resources.list(Task, deleted=True)) == 7


async def test_a_reminder_due_while_the_gateway_was_stopped_fires_once_at_startup(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        await harness.service.scheduler.stop()
        await harness.service.resources.add(Reminder(id="r", message="m", remind_at=harness.clock.now_ms() - 1000))
    for _ in range(2):
        async with open_harness(tmp_path) as harness:
            await harness.clock.advance(0)
            await harness.wait_fired()
            fired = [change for change in await harness.feed_items() if change.action == "complete"]
            assert len(fired) == 1


async def test_a_failing_alarm_does_not_stop_the_others(harness: NotificationsHarness) -> None:
    """Its reminder was removed directly from the store."""
    now = harness.clock.now_ms()
    await harness.service.resources.add(Reminder(id="gone", message="m", remind_at=now + 1000))
    await harness.service.resources.add(Reminder(id="there", message="m", remind_at=now + 1000))
    await harness.store.resources.write(1, removes=[("reminder", "gone")])
    await harness.clock.advance(1)
    await harness.wait_fired()
    assert (await harness.service.resources.get(Reminder, "there")).notified


async def test_with_nothing_due_no_timer_is_set(harness: NotificationsHarness) -> None:
    assert harness.clock.waiting == 0
    await harness.service.resources.add(Reminder(id="r", message="m", remind_at=harness.clock.now_ms() + 9_000_000))
    assert harness.clock.waiting == 1
    await harness.service.resources.remove(Reminder, "r")
    assert harness.clock.waiting == 0


async def test_a_bad_schedule_makes_no_agent(harness: NotificationsHarness) -> None:
    with pytest.raises(BadRequest):
        await harness.service.resources.add(ScheduledAgent(id="a", name="n", schedule="never", prompt="p"))
    with pytest.raises(NotFound):
        await harness.service.resources.get(ScheduledAgent, "a")
    assert await harness.feed_items() == []


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("* * * * *", 60),
        ("*/15 * * * *", 900),
        ("0 13 * * *", 3600),
        ("0 12 * * *", 86400),
        ("0 12 * * WED", 86400),
        ("0 12 29 2 *", 107 * 86400),
    ],
)
def test_when_a_schedule_is_due(schedule: str, seconds: int) -> None:
    assert next_due(schedule, NOON) == NOON + seconds * 1000
