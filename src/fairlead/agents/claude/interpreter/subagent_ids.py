"""The ids of Claude's subagents, from the calls that start them. Pure."""

from functools import partial

from fairlead.model import ids

subagent_id = partial(ids.subagent_id, "claude")
