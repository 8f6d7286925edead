"""The gate at work: the pure decision, the ticket spent, the refusal logged. Called for every request and upgrade."""

import logging

from fairlead.auth.credentials import Credentials
from fairlead.auth.gate import Allow, Demand, Refuse, decide
from fairlead.auth.hosts import House
from fairlead.model.requests import Head

log = logging.getLogger("fairlead.gate")

_SPENT = Refuse(401, "bad_credential", "The credential is not valid.")


class Gatekeeper:
    def __init__(self, house: House, credentials: Credentials) -> None:
        self.house = house
        self._credentials = credentials

    def admit(self, head: Head, demand: Demand) -> Allow | Refuse:
        verdict = decide(head, demand, self.house, self._credentials)
        if isinstance(verdict, Allow) and verdict.ticket and not self._credentials.tickets.spend(verdict.ticket):
            verdict = _SPENT
        if isinstance(verdict, Refuse):
            kind = "websocket" if head.socket else head.method
            fields = {
                "peer": head.peer,
                "kind": kind,
                "path": head.path,
                "status": verdict.status,
                "code": verdict.code,
            }
            log.info("refused", extra=fields)
        return verdict
