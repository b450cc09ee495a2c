"""Options of the original API that have no effect here, and are said rather than passed over."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from sandlot.errors import Invalid

_WITHOUT_EFFECT = {
    "env_client": "environments are played in this process",
    "hf_hub_dataset_name": "results are shared with sandlot run push",
    "independent_scoring": "a rollout is scored when it ends unless its rubric judges groups",
    "on_log": "progress is logged by sandlot.envs",
    "on_progress": "sandlot eval shows progress",
    "on_start": "sandlot eval shows progress",
    "push_to_hf_hub": "results are shared with sandlot run push",
    "score_rollouts": "it is a setting of the environment",
    "state_columns": "everything in the state that is JSON is kept",
}


def tolerate(call: str, options: Mapping[str, Any]) -> None:
    """Warns of every option in `options` that has no effect and is set; `Invalid` for one that never existed."""
    for name, value in options.items():
        if name not in _WITHOUT_EFFECT:
            raise Invalid(f"{call} takes no option {name!r}")
        if value:
            warnings.warn(f"{call}({name}=…) has no effect: {_WITHOUT_EFFECT[name]}", UserWarning, stacklevel=4)
