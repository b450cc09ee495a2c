"""Logging in and out with a browser.

Invariants: a form counts only if it was sent from a page of this hub; the session's cookie cannot be read by script and
is not sent along from elsewhere; after logging in one lands on a page of this hub, whatever the address says.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from sandlot.errors import Forbidden, Unauthorized
from sandlot.hub.http import SESSION_COOKIE, hub_of, origin_of
from sandlot.hub.problems import status_of
from sandlot.hub.web.render import READ, page

router = APIRouter(include_in_schema=False)


@router.api_route("/login", methods=READ)
def login_page(request: Request) -> Response:
    """The form."""
    context = {"next": here(request.query_params.get("next")), "name": "", "problem": None}
    return page(request, "login.html.j2", {**context, "command": "sandlot login"})


@router.post("/login")
def login(
    request: Request,
    name: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",
) -> Response:
    """Starts a session. A wrong name or password shows the form again, without saying which of the two it is."""
    _own_form(request)
    hub = hub_of(request)
    try:
        session = hub.sessions.start(hub.sessions.sign_in(name, password))
    except Unauthorized as error:
        words = f"{error.message}; {error.hint}" if error.hint else error.message
        context = {"next": here(next), "name": name, "problem": words, "command": "sandlot login"}
        return page(request, "login.html.j2", context, status=status_of(error))
    answer = RedirectResponse(here(next), status_code=303)
    answer.set_cookie(
        SESSION_COOKIE,
        session.token,
        max_age=hub.settings.session_days * 86400,
        httponly=True,
        samesite="lax",
        secure=origin_of(request).startswith("https://"),
        path="/",
    )
    return answer


@router.post("/logout")
def logout(request: Request, csrf: Annotated[str, Form()] = "") -> Response:
    """Ends the session."""
    _own_form(request)
    token = request.cookies.get(SESSION_COOKIE)
    session = hub_of(request).sessions.get(token) if token else None
    answer = RedirectResponse("/", status_code=303)
    if session is not None:
        if csrf != session.csrf:
            raise Forbidden("the form is not one that this hub gave", hint="reload the page and try again")
        hub_of(request).sessions.end(session.token)
    answer.delete_cookie(SESSION_COOKIE, path="/")
    return answer


def here(address: str | None) -> str:
    """`address` if it is a path of this hub, else the front page."""
    if not address or not address.startswith("/") or address.startswith(("//", "/\\")):
        return "/"
    return address if address.isprintable() and not urlsplit(address).netloc else "/"


def _own_form(request: Request) -> None:
    """`Forbidden` for a form that a page elsewhere has sent."""
    origin = request.headers.get("origin")
    # Hosts alone are compared: a proxy that ends TLS makes the scheme differ.
    own = {urlsplit(origin_of(request)).netloc, request.url.netloc}
    if origin is not None and urlsplit(origin).netloc not in own:
        hint = "log in on the hub's own page; behind a proxy, set public_url to the address that people use"
        raise Forbidden(f"the form was sent from {origin}, which is not this hub", hint=hint)
