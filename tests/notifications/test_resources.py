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
from notifications.harness import NotificationsHarness, rigged

NOON = 1_699_963_200_000  # 2023-11-14 12:00 UTC


async def test_a_secret_is_encrypted_at_rest_with_a_key_that_only_its_owner_can_read(rig: NotificationsHarness) -> None:
    await rig.room.resources.add(Secret(id="1", key="API_KEY"), "s3cret")
    key = rig.folder / FILE
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    await rig.store.close()
    for path in (rig.folder / "data").iterdir():
        if path.is_file():
            assert b"s3cret" not in path.read_bytes()


async def test_a_secret_is_decrypted_after_a_restart_and_not_by_another_key(tmp_path: Path) -> None:
    async with rigged(tmp_path) as rig:
        await rig.room.resources.add(Secret(id="1", key="API_KEY"), "s3cret")
    async with rigged(tmp_path) as rig:
        assert await rig.room.resources.reveal("API_KEY") == "s3cret"
    (tmp_path / FILE).write_bytes(bytes(32))
    async with rigged(tmp_path) as rig:
        with pytest.raises(Damaged, match="put back the key file"):
            await rig.room.resources.reveal("API_KEY")
    (tmp_path / FILE).write_bytes(b"short")
    async with rigged(tmp_path) as rig:
        with pytest.raises(Damaged, match="is not a key"):
            await rig.room.resources.reveal("API_KEY")


async def test_equal_secrets_have_different_ciphertexts(rig: NotificationsHarness) -> None:
    one = await rig.room.resources.add(Secret(id="1", key="A"), "same")
    other = await rig.room.resources.add(Secret(id="2", key="B"), "same")
    assert one.sealed != other.sealed


async def test_concurrent_adds_of_one_name_succeed_once(rig: NotificationsHarness) -> None:
    made = await asyncio.gather(
        *(rig.room.resources.add(Secret(id=str(number), key="A"), "x") for number in range(5)), return_exceptions=True
    )
    assert sum(isinstance(one, Secret) for one in made) == 1
    assert sum(isinstance(one, Stale) for one in made) == 4


async def test_two_changes_at_once_are_both_kept(rig: NotificationsHarness) -> None:
    await rig.room.resources.add(Task(id="t", title="a"))
    await asyncio.gather(
        rig.room.resources.edit(Task, "t", {"title": "b"}), rig.room.resources.edit(Task, "t", {"description": "d"})
    )
    task = await rig.room.resources.get(Task, "t")
    assert (task.title, task.description) == ("b", "d")


async def test_a_task_has_a_completion_time_only_while_it_is_done(rig: NotificationsHarness) -> None:
    await rig.room.resources.add(Task(id="t", title="a", status="done"))
    first = (await rig.room.resources.get(Task, "t")).completed_at
    await rig.clock.advance(60)
    assert (await rig.room.resources.edit(Task, "t", {"title": "b"})).completed_at == first
    assert (await rig.room.resources.edit(Task, "t", {"status": "todo"})).completed_at is None
    assert (await rig.room.resources.edit(Task, "t", {"status": "done"})).completed_at == rig.clock.now_ms()


async def test_the_number_of_stored_resources_is_limited(
    rig: NotificationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "MOST", 3)
    for number in range(5):
        # Items that are added automatically: the oldest are dropped.
        await rig.room.resources.add(HookEvent(id=str(number), event_type="SessionStart"))
    assert [one.id for one in await rig.room.resources.list(HookEvent)] == ["4", "3", "2"]
    for number in range(3):
        await rig.room.resources.add(MemoryResource(id=str(number), content="c", chunk_type="fact"))
    with pytest.raises(TooMany):
        await rig.room.resources.add(MemoryResource(id="9", content="c", chunk_type="fact"))
    await rig.room.resources.remove(MemoryResource, "0")
    await rig.room.resources.add(MemoryResource(id="9", content="c", chunk_type="fact"))


async def test_many_resources_are_read_in_pages_and_in_order(
    rig: NotificationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "PAGE", 2)
    for number in range(7):
        await rig.room.resources.add(Task(id=str(number), title="t"))
    await rig.room.resources.remove(Task, "3")
    assert [one.id for one in await rig.room.resources.list(Task)] == ["6", "5", "4", "2", "1", "0"]
    assert [one.id for one in await rig.room.resources.list(Task, lambda one: int(one.id) % 2 == 0, 2)] == ["6", "4"]
    assert len(await rig.room.resources.list(Task, deleted=True)) == 7


async def test_a_reminder_due_while_the_gateway_was_stopped_fires_once_at_startup(tmp_path: Path) -> None:
    async with rigged(tmp_path) as rig:
        await rig.room.scheduler.stop()
        await rig.room.resources.add(Reminder(id="r", message="m", remind_at=rig.clock.now_ms() - 1000))
    for _ in range(2):
        async with rigged(tmp_path) as rig:
            await rig.clock.advance(0)
            await rig.wait_fired()
            fired = [change for change in await rig.told() if change.action == "complete"]
            assert len(fired) == 1


async def test_a_failing_alarm_does_not_stop_the_others(rig: NotificationsHarness) -> None:
    """Its reminder was removed directly from the store."""
    now = rig.clock.now_ms()
    await rig.room.resources.add(Reminder(id="gone", message="m", remind_at=now + 1000))
    await rig.room.resources.add(Reminder(id="there", message="m", remind_at=now + 1000))
    await rig.store.resources.write(1, removes=[("reminder", "gone")])
    await rig.clock.advance(1)
    await rig.wait_fired()
    assert (await rig.room.resources.get(Reminder, "there")).notified


async def test_with_nothing_due_no_timer_is_set(rig: NotificationsHarness) -> None:
    assert rig.clock.waiting == 0
    await rig.room.resources.add(Reminder(id="r", message="m", remind_at=rig.clock.now_ms() + 9_000_000))
    assert rig.clock.waiting == 1
    await rig.room.resources.remove(Reminder, "r")
    assert rig.clock.waiting == 0


async def test_a_bad_schedule_makes_no_agent(rig: NotificationsHarness) -> None:
    with pytest.raises(BadRequest):
        await rig.room.resources.add(ScheduledAgent(id="a", name="n", schedule="never", prompt="p"))
    with pytest.raises(NotFound):
        await rig.room.resources.get(ScheduledAgent, "a")
    assert await rig.told() == []


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
