"""Sampling arguments as authors write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandlot.records import Sampling

_SAMPLING = frozenset(Sampling.__struct_fields__) - {"extra", "seed"}


def sampling_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Sampling arguments as chat endpoints name them; what has no field of its own goes to the endpoint as it is."""
    known = {key: value for key, value in arguments.items() if key in _SAMPLING and value is not None}
    extra = {key: value for key, value in arguments.items() if key not in _SAMPLING and key not in ("n", "extra_body")}
    if "max_completion_tokens" in extra:
        known.setdefault("max_tokens", extra.pop("max_completion_tokens"))
    if isinstance(known.get("stop"), str):
        known["stop"] = [known["stop"]]
    return {**known, "extra": {**extra, **(arguments.get("extra_body") or {})}}
