"""A release is rolled out: every process is replaced while clients are at work."""

from __future__ import annotations

from tests.chaos.audit import audit
from tests.chaos.house import House
from tests.chaos.rolling import Balancer, Clients, blue_green

CLIENTS = 3


def test_every_process_is_replaced_and_no_client_notices(house: House) -> None:
    """No request fails and none is sent again; no job is lost, rendered or charged twice; streams go on."""
    before = {member.pid for member in house.members}
    balancer = Balancer(house.apis)
    clients = Clients(balancer.start())
    try:
        with clients.at_work(CLIENTS):
            blue_green(house, balancer)
    finally:
        balancer.stop()
    assert clients.broken == []
    assert before.isdisjoint(member.pid for member in house.members)
    assert len(clients.accepted) > CLIENTS
    with house.connect() as connection:
        found = audit(connection, house.outputs, dict.fromkeys(clients.accepted, ("succeeded",)))
    assert found.broken == []
    assert found.done_once == len(clients.accepted)
