"""How much of the output of an agent at the keeper is stored."""

import msgspec


class OutputPosition(msgspec.Struct, frozen=True):
    """How much of the output of a process at the keeper is stored; `offset` is the end of a line. `recall`: lines
    before it that the driver needs again after a restart of the gateway, such as open requests; None if they have not
    changed."""

    offset: int
    recall: tuple[bytes, ...] | None = None


class StoredOutput(msgspec.Struct, frozen=True):
    """The last stored position of a process, with its lines to recall."""

    offset: int = 0
    recall: tuple[bytes, ...] = ()
