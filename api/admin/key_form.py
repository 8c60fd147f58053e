"""The form of an API key: what it shows, and what it sends."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from api.admin.forms import posted, values
from api.admin.local_times import local_time, with_zone
from api.admin.rendering import AnyRequest
from api.key_schemas import KeyView
from jobstore.keys import Scope

SCOPES = (
    (Scope.SUBMIT, "hand in, cancel and retry jobs"),
    (Scope.READ, "see jobs, their events and pictures, and the models"),
    (Scope.OBSERVE, "look at all admin pages and change nothing"),
    (Scope.ADMIN, "all of this for everybody's jobs; lanes, budgets, keys and the audit log"),
)
"""Each with what it means."""


class KeyForm(Struct, frozen=True, kw_only=True):
    """The fields, as they stand in the form. No model named: all."""

    name: str = ""
    scopes: tuple[str, ...] = (Scope.SUBMIT, Scope.READ)
    models: tuple[str, ...] = ()
    networks: str = ""
    team: str = ""
    customer: str = ""
    weight: str = "1"
    expires_at: str = ""

    def given(self) -> dict[str, Any]:
        """The fields as the API takes them."""
        return {
            "name": self.name,
            "scopes": self.scopes,
            "models": self.models or None,
            "networks": self.networks.replace(",", " ").split() or None,
            "team": self.team or None,
            "customer": self.customer or None,
            "weight": self.weight,
            "expires_at": with_zone(self.expires_at),
        }

    def changes(self, before: KeyForm) -> dict[str, Any]:
        """Those that differ from what the form showed: what nobody touched stays as it is by now."""
        return {name: value for name, value in self.given().items() if getattr(self, name) != getattr(before, name)}


async def sent_form(request: AnyRequest) -> KeyForm:
    """What was posted."""
    fields = await posted(request)
    plain = {name: fields.get(name, "") for name in ("name", "networks", "team", "customer", "weight", "expires_at")}
    return KeyForm(
        **plain, scopes=await values(request, "scopes"), models=tuple(sorted(await values(request, "models")))
    )


def form_of(key: KeyView) -> KeyForm:
    """A key as the form shows it."""
    return KeyForm(
        name=key.name,
        scopes=tuple(key.scopes),
        models=tuple(sorted(key.models or ())),
        networks=" ".join(key.networks or ()),
        team=key.team or "",
        customer=key.customer or "",
        weight=f"{key.weight:g}",
        expires_at=local_time(key.expires_at),
    )
