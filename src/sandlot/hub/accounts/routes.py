"""Accounts and keys over HTTP."""

from __future__ import annotations

from fastapi import APIRouter

from sandlot import api
from sandlot.hub.http import ApiViewer, HubOf
from sandlot.hub.problems import problem

router = APIRouter(prefix="/api/v1", tags=["accounts"])


@router.get("/me")
def me(hub: HubOf, viewer: ApiViewer) -> api.Me:
    """Who the key speaks for, and what it may do."""
    if viewer.name is None:
        raise problem("unauthorized", "there is no key in the request", hint="sandlot login")
    scopes = list(api.SCOPES) if viewer.scopes is None else sorted(viewer.scopes)
    return api.Me(account=hub.accounts.get(viewer.name), scopes=scopes, owners=hub.accounts.owners(viewer))


@router.post("/login", status_code=201)
def login(body: api.Login, hub: HubOf) -> api.KeyCreated:
    """Trades a name and a password for an API key."""
    viewer = hub.sessions.sign_in(body.name, body.password)
    return hub.keys.create(viewer.name or "", body.key, viewer=viewer)


@router.get("/keys")
def list_keys(hub: HubOf, viewer: ApiViewer) -> api.Page[api.KeyInfo]:
    """The caller's keys."""
    return api.Page(items=hub.keys.list(viewer))


@router.post("/keys", status_code=201)
def create_key(body: api.KeyCreate, *, hub: HubOf, viewer: ApiViewer) -> api.KeyCreated:
    """A new key of the caller."""
    if viewer.name is None:
        raise problem("unauthorized", "there is no key in the request", hint="sandlot login")
    return hub.keys.create(viewer.name, body, viewer=viewer)


@router.delete("/keys/{key_id}", status_code=204)
def revoke_key(key_id: str, *, hub: HubOf, viewer: ApiViewer) -> None:
    """Ends one of the caller's keys for good."""
    hub.keys.revoke(viewer, key_id)


@router.get("/accounts/{name}")
def get_account(name: str, hub: HubOf) -> api.Account:
    """A user or an organisation."""
    return hub.accounts.get(name)


@router.post("/organisations", status_code=201)
def create_organisation(body: api.OrganisationCreate, *, hub: HubOf, viewer: ApiViewer) -> api.Account:
    """A new organisation, owned by the caller."""
    return hub.accounts.create_organisation(viewer, body)


@router.get("/organisations/{name}/members")
def list_members(name: str, *, hub: HubOf, viewer: ApiViewer) -> api.Page[api.Member]:
    """Who belongs to an organisation."""
    return api.Page(items=hub.accounts.members(viewer, name))


@router.put("/organisations/{name}/members/{user}")
def put_member(name: str, user: str, *, body: api.MemberPut, hub: HubOf, viewer: ApiViewer) -> api.Member:
    """Adds a user to an organisation, or changes the role."""
    return hub.accounts.put_member(viewer, name, user=user, role=body.role)


@router.delete("/organisations/{name}/members/{user}", status_code=204)
def remove_member(name: str, user: str, *, hub: HubOf, viewer: ApiViewer) -> None:
    """Takes a user out of an organisation."""
    hub.accounts.remove_member(viewer, name, user=user)
