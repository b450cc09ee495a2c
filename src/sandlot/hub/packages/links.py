"""Where files of the hub are, and the lines that install them."""

from __future__ import annotations

from sandlot import api


def file_path(owner: str, sha256: str, *, name: str) -> str:
    """The path of a file under its owner. It holds the content's digest, so it can be cached for ever."""
    return f"/{owner}/files/{sha256[:16]}/{name}"


def requirement(name: str, url: str, *, sha256: str) -> str:
    """A PEP 508 direct reference that pip and uv check the hash of."""
    return f"{name} @ {url}#sha256={sha256}"


def install_lines(ref: str, package: str, *, sdk: str) -> api.Install:
    """The lines for each tool; `package` and `sdk` are direct references.

    They name files and never an index: a package of the same name elsewhere cannot come in its place, whatever its
    version, and what else is needed comes from the user's own index.
    """
    wanted = f'"{package}" "{sdk}"' if sdk else f'"{package}"'
    return api.Install(
        requirement=package,
        sdk_requirement=sdk,
        sandlot=f"sandlot env install {ref}",
        pip=f"pip install {wanted}",
        uv=f"uv pip install {wanted}",
    )
