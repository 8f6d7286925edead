"""The ids of subagents, from the calls that started them. Pure."""

from functools import partial
from typing import Final

from fairlead.model import ids

subagent_id: Final = partial(ids.subagent_id, "claude")
