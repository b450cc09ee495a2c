"""Which exit code and which words an error gets: 0 done, 1 failed, 2 misused, 3 unreachable, 130 interrupted."""

from __future__ import annotations

import traceback
from typing import Any

import click

from sandlot import __version__, errors
from sandlot.cli.output import Output

FAILED, MISUSED, UNREACHABLE, INTERRUPTED = 1, 2, 3, 130

EXIT_CODES: dict[type[BaseException], int] = {
    errors.Invalid: MISUSED,
    errors.Unreachable: UNREACHABLE,
    errors.SandlotError: FAILED,
    click.UsageError: MISUSED,
    click.ClickException: FAILED,
    click.Abort: INTERRUPTED,
    KeyboardInterrupt: INTERRUPTED,
}
"""The code of the nearest class in an error's ancestry; whatever has none is a fault of sandlot's and exits with 1."""


def exit_code(error: BaseException) -> int:
    """The exit code of `error`."""
    return next((EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES), FAILED)


def problem(error: BaseException) -> dict[str, Any]:
    """`error` as an object: a stable `code`, `detail` in words, and `hint` where there is something to do."""
    if isinstance(error, errors.SandlotError):
        return _without_none(code=error.code, detail=error.message, hint=error.hint)
    if isinstance(error, click.UsageError):
        help_line = f"{error.ctx.command_path} --help" if error.ctx is not None else "sandlot --help"
        return {"code": "usage", "detail": error.format_message(), "hint": help_line}
    if isinstance(error, click.ClickException):
        return {"code": "failed", "detail": error.format_message()}
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return {"code": "interrupted", "detail": "interrupted"}
    return {
        "code": "internal",
        "detail": f"sandlot {__version__} failed in a way that it should not: {type(error).__name__}: {error}",
        "hint": "please report it, with the lines above",
        "traceback": "".join(traceback.format_exception(error)),
    }


def report(error: BaseException, out: Output) -> int:
    """Prints `error` and returns its exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return MISUSED
    if exit_code(error) == INTERRUPTED and not out.json:
        out.say("interrupted")
    else:
        out.error(problem(error))
    return exit_code(error)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
