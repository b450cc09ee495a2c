"""Errors with stable codes: how a service raises one and how a client sees it (RFC 9457).

Every code that the hub can answer with is made here, so that this file is the list of them.
"""

from __future__ import annotations

from typing import TypeVar

from sandlot import errors
from sandlot.api import Problem

STATUS: dict[type[errors.SandlotError], int] = {
    errors.Invalid: 422,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.MissingDependency: 501,
}
"""Of each family of errors; what is not here is 500."""

CODES: dict[str, type[errors.SandlotError]] = {
    "invalid": errors.Invalid,
    "bad_cursor": errors.Invalid,
    "bad_request": errors.Invalid,
    "scope_unknown": errors.Invalid,
    "password_weak": errors.Invalid,
    "name_reserved": errors.Invalid,
    "name_mismatch": errors.Invalid,
    "version_invalid": errors.Invalid,
    "manifest_invalid": errors.Invalid,
    "manifest_mismatch": errors.Invalid,
    "digest_mismatch": errors.Invalid,
    "size_mismatch": errors.Invalid,
    "file_missing": errors.Invalid,
    "too_large": errors.Invalid,
    "wheel_malformed": errors.Invalid,
    "sdist_malformed": errors.Invalid,
    "archive_unsafe": errors.Invalid,
    "archive_bomb": errors.Invalid,
    "environment_unknown": errors.NotFound,
    "run_invalid": errors.Invalid,
    "batch_invalid": errors.Invalid,
    "event_invalid": errors.Invalid,
    "not_acceptable": errors.Invalid,
    "not_found": errors.NotFound,
    "conflict": errors.Conflict,
    "account_exists": errors.Conflict,
    "release_exists": errors.Conflict,
    "release_deleted": errors.Conflict,
    "visibility_conflict": errors.Conflict,
    "upload_expired": errors.Conflict,
    "idempotency_mismatch": errors.Conflict,
    "run_exists": errors.Conflict,
    "offset_mismatch": errors.Conflict,
    "last_owner": errors.Conflict,
    "unauthorized": errors.Unauthorized,
    "key_invalid": errors.Unauthorized,
    "key_expired": errors.Unauthorized,
    "password_wrong": errors.Unauthorized,
    "too_many_attempts": errors.Unauthorized,
    "forbidden": errors.Forbidden,
    "scope_missing": errors.Forbidden,
    "owner_restricted": errors.Forbidden,
}
"""Every code and its family."""

_OWN_STATUS = {"too_large": 413, "not_acceptable": 406, "too_many_attempts": 429}

_TITLES = {
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    409: "Conflict",
    413: "Too large",
    422: "Invalid",
    429: "Too many attempts",
    500: "The hub failed",
}

ErrorT = TypeVar("ErrorT", bound=errors.SandlotError)


def problem(code: str, message: str, *, hint: str | None = None) -> errors.SandlotError:
    """The error to raise for a code of `CODES`."""
    error = CODES[code](message, hint=hint)
    error.code = code
    return error


def status_of(error: errors.SandlotError) -> int:
    """The HTTP status of an error."""
    if error.code in _OWN_STATUS:
        return _OWN_STATUS[error.code]
    return next((status for family, status in STATUS.items() if isinstance(error, family)), 500)


def document(error: errors.SandlotError) -> Problem:
    """An error as a problem document."""
    return plain(status_of(error), error.message, code=error.code, hint=error.hint)


def plain(status: int, detail: str, *, code: str, hint: str | None = None) -> Problem:
    """A problem document of any status."""
    title = _TITLES.get(status, "Error")
    return Problem(title=title, status=status, detail=detail, code=code, hint=hint)
