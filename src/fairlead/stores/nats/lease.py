"""Who is alive, from what one node hears. Pure: the caller passes the times of a monotonic clock.

    A node may believe that it owns its sessions for `believe_s` from the sending of its last acknowledged renewal.
    Another node is dead if it was not heard for `dead_s`, and this node heard its own renewals all that time: who was
    deaf itself (an election, a partition) judges nobody, and the others' time begins anew.

Only the rates of clocks are compared (believe_s against dead_s), never their times.
"""

import msgspec


class LeaseTimes(msgspec.Struct, frozen=True):
    renew_s: float = 5.0
    believe_s: float = 20.0
    dead_s: float = 30.0
    deaf_s: float = 15.0


class Leases:
    def __init__(self, node: str, times: LeaseTimes, now: float) -> None:
        self._node = node
        self._times = times
        self._heard: dict[str, float] = {}
        self._own = now
        self._judges_from = now
        self._sent = now

    def heard(self, node: str, now: float) -> None:
        """A renewal of a node was heard."""
        if node == self._node:
            if now - self._own > self._times.deaf_s:
                self._judges_from = now + self._times.dead_s
            self._own = now
        self._heard[node] = now

    def gone(self, node: str) -> None:
        """A node has stopped, or was removed by a person."""
        self._heard.pop(node, None)

    def renewed(self, sent: float) -> None:
        """A renewal of this node that was sent at this time was acknowledged."""
        self._sent = max(self._sent, sent)

    def suspended(self, now: float) -> bool:
        return now - self._sent > self._times.believe_s

    def lives(self, node: str, now: float) -> bool:
        if node == self._node:
            return True
        if node not in self._heard:
            return False
        judges = now >= self._judges_from and now - self._own <= self._times.deaf_s
        return not judges or now - self._heard[node] <= self._times.dead_s

    def last_heard(self, node: str) -> float | None:
        return self._heard.get(node)
