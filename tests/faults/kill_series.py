"""Many trials, several side by side, each on a gateway of its own: one fails, all end.

The moments of a trial come from the seed and its number, so that it can be repeated alone.
"""

import asyncio
import random
import traceback
from collections.abc import Callable
from pathlib import Path

from faults.gateway_forks import GatewayForks
from faults.gateway_process import GatewayProcess
from faults.kill_trial import PER_SESSION, RULES, Trial, undisturbed


class KillSeries:
    """`first`: the number of the first trial. `report` is called after each trial."""

    def __init__(self, folder: Path, seed: int, first: int = 0, report: Callable[[], None] = lambda: None) -> None:
        self.seed = seed
        self.kills = 0
        """Of the trials whose whole log was checked."""
        self.turns = 0
        self.trials = 0
        self.failure = ""
        self._folder = folder
        self._next = first
        self._left = 0
        self._report = report

    async def run(self, kills: int, *, side_by_side: int) -> None:
        """Kill so often. Stop at the first failure, which is kept."""
        self._left = kills
        with GatewayForks() as forks:
            lanes = [asyncio.create_task(self._lane(number, forks)) for number in range(side_by_side)]
            try:
                await asyncio.wait(lanes, return_when=asyncio.FIRST_EXCEPTION)
            finally:  # also if the series is interrupted: no lane leaves a process
                for lane in lanes:
                    lane.cancel()
                outcomes = await asyncio.gather(*lanes, return_exceptions=True)
            failed = next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)
            self.failure = "" if failed is None else "".join(traceback.format_exception(failed))

    async def _lane(self, number: int, forks: GatewayForks) -> None:
        gateway = GatewayProcess(self._folder / f"lane-{number}", allow=RULES)
        gateway.forks = forks
        async with gateway:
            references = await undisturbed(gateway)
            while self._left > 0:
                trial, self._next = self._next, self._next + 1
                count = min(PER_SESSION, self._left)
                self._left -= count
                try:
                    turns = await self._trial(gateway, trial, count, references)
                except Exception as error:
                    error.add_note(f"trial {trial} of the seed {self.seed}, in {gateway.folder}")
                    raise
                self.kills += count
                self.turns += turns
                self.trials += 1
                self._report()

    async def _trial(
        self, gateway: GatewayProcess, number: int, count: int, references: dict[str, list[dict[str, object]]]
    ) -> int:
        session = await gateway.create()
        trial = Trial(gateway, session, random.Random(f"{self.seed}-{number}"), references)
        await trial.kills(count)
        async with gateway.http() as http:  # else the agents of all trials would be there at the end
            assert (await http.post(f"/v1/sessions/{session}/close")).status_code == 200
        return len(trial.wanted)
