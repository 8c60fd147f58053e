"""API keys: who has one, what it may do and what it spends; making, changing, rotating and revoking them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter
from litestar.response import Template
from msgspec import structs

from api.admin.forms import posted, struct_of
from api.admin.gate import current
from api.admin.key_form import SCOPES, KeyForm, form_of, sent_form
from api.admin.key_standing import key_rows, key_story
from api.admin.rendering import AnyRequest, done, page
from api.auth import actor
from api.key_changes import changed_key, found_key, made_key, revoked_key, rotated_key
from api.key_schemas import KeyPatch, KeyRequest, KeyView, RotateRequest
from api.keys import KEY_STATES, key_list, key_state
from api.openapi import ServicesDependency
from api.problems import ProblemError
from api.services import Services
from jobstore.key_fields import MAX_NAME
from jobstore.keys import KeyFilter, Scope

_PATH = "/admin/keys"
_A_PAGE = 25
GRACES = ((0, "not at all"), (3_600, "1 hour"), (86_400, "1 day"), (604_800, "7 days"), (2_592_000, "30 days"))
"""For how long a secret may count beside the next one: seconds, and words."""

Text = Annotated[str, QueryParameter(max_length=MAX_NAME)]
Cursor = Annotated[str, QueryParameter(max_length=100)]


@get("/keys")
async def show(
    request: AnyRequest,
    services: ServicesDependency,
    text: Text = "",
    team: Text = "",
    in_state: Annotated[str, QueryParameter(name="state", max_length=20)] = "",
    cursor: Cursor = "",
) -> Template:
    """A page of keys, oldest first, each with its month and its tightest budget."""
    where = KeyFilter(limit=_A_PAGE, text=text.strip() or None, team=team.strip() or None, state=key_state(in_state))
    keys = await key_list(services, where, cursor or None)
    query = [(name, value) for name, value in (("text", text), ("team", team), ("state", in_state)) if value]
    return await page(
        request, "keys.html", title="Keys", rows=await key_rows(services, keys.data), next_cursor=keys.next_cursor,
        text=text, team=team, state=in_state, states=KEY_STATES, query=query,
    )  # fmt: skip


@get("/keys/new")
async def new(request: AnyRequest, services: ServicesDependency) -> Template:
    """The form for another one; the first of all is meant to be an admin's."""
    admins = await services.store.list_keys(KeyFilter(admins=True, limit=1))
    form = KeyForm() if admins else KeyForm(scopes=(Scope.ADMIN,))
    return await _form_page(request, services, form, None, first=not admins)


@post("/keys")
async def create(request: AnyRequest, services: ServicesDependency) -> Template:
    """Make it; its secret is on this answer and nowhere else."""
    wanted = struct_of((await sent_form(request)).given(), KeyRequest)
    made = await made_key(services, structs.asdict(wanted), actor(request))
    own = _is_own(request, made)
    return await page(request, "key-secret.html", title="Key made", made=made, rotated=False, own=own)


@get("/keys/{key_id:str}")
async def look(key_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Template:
    """One, with its budgets, what it spent this month, and what was done to it."""
    key = await found_key(services, key_id)
    story = await key_story(services, key)
    admins = await services.store.list_keys(KeyFilter(admins=True, limit=2))
    return await page(
        request, "key.html", title=key.name, key=key, story=story, graces=GRACES, scopes=dict(SCOPES),
        jobs=urlencode({"key": str(key.id)}), log=urlencode({"target": str(key.id)}),
        last_admin=[one.id for one in admins] == [key.id],
    )  # fmt: skip


@get("/keys/{key_id:str}/change")
async def edit(key_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Template:
    """The form, with what the key is now."""
    key = await found_key(services, key_id)
    return await _form_page(request, services, form_of(key), key, first=False)


@post("/keys/{key_id:str}/change")
async def change(key_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """Change what differs from what the key is."""
    key = await found_key(services, key_id)
    given = (await sent_form(request)).changes(form_of(key))
    wanted = structs.asdict(struct_of(given, KeyPatch))
    force = await _forced(request)
    try:
        await changed_key(services, key_id, {name: wanted[name] for name in given}, actor(request), force=force)
    except ProblemError as problem:
        raise _in_a_form(problem) from None
    return done(request, f"{_PATH}/{key.id}", "Changed: it counts on every server within two seconds.")


@post("/keys/{key_id:str}/rotate")
async def rotate(key_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Template:
    """Another secret, on this answer and nowhere else."""
    wanted = struct_of({"grace_s": (await posted(request)).get("grace_s", "0")}, RotateRequest)
    made = await rotated_key(services, key_id, wanted.grace_s, actor(request))
    own = _is_own(request, made)
    return await page(request, "key-secret.html", title="Secret rotated", made=made, rotated=True, own=own)


@post("/keys/{key_id:str}/revoke")
async def revoke(key_id: FromPath[str], request: AnyRequest, services: ServicesDependency) -> Response[bytes]:
    """End it for good."""
    try:
        key = await revoked_key(services, key_id, actor(request), force=await _forced(request))
    except ProblemError as problem:
        raise _in_a_form(problem) from None
    return done(request, f"{_PATH}/{key.id}", f"{key.name} is revoked: no request with it is taken any more.")


async def _form_page(
    request: AnyRequest, services: Services, form: KeyForm, key: KeyView | None, *, first: bool
) -> Template:
    known = sorted(services.settings.models)
    gone = sorted(set(form.models) - set(known))
    return await page(
        request, "key-form.html", title="Change a key" if key else "New key", form=form, key=key, first=first,
        scopes=SCOPES, models=known, gone=gone,
    )  # fmt: skip


async def _forced(request: AnyRequest) -> bool:
    return (await posted(request)).get("force") == "yes"


def _in_a_form(problem: ProblemError) -> ProblemError:
    """In the words of the pages, where ``force`` is a box."""
    detail = problem.detail.replace("send force=true", "tick the box for that")
    return ProblemError(problem.status_code, problem.code, detail, field=problem.field or "force")


def _is_own(request: AnyRequest, key: KeyView) -> bool:
    """True where the session is the key's, and so ends with its secret; or where it is the first key of all."""
    operator = current(request)
    return operator is None or operator.key is None or operator.key.id == key.id


KEY_ROUTES = (show, new, create, look, edit, change, rotate, revoke)
