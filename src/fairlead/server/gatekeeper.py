"""The gate at work: the pure decision, the ticket spent, the refusal logged. Called for every request and upgrade."""

import logging

from fairlead.auth.credentials import Credentials
from fairlead.auth.gate import Allow, Demand, Refuse, decide
from fairlead.auth.hosts import House
from fairlead.model.requests import Head

log = logging.getLogger("fairlead.gate")


class Gatekeeper:
    def __init__(self, house: House, credentials: Credentials) -> None:
        self.house = house
        self._credentials = credentials

    def admit(self, head: Head, demand: Demand) -> Allow | Refuse:
        verdict = decide(head, demand, self.house, self._credentials)
        if isinstance(verdict, Allow):
            if verdict.ticket:
                # Nothing was awaited since the decision, so nobody else can have spent it.
                self._credentials.tickets.spend(verdict.ticket)
        else:
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
