"""The working memory of a rollout in flight."""

from __future__ import annotations

from typing import Any


class State(dict[str, Any]):
    """A dict that authors may write to. The engine's own record of the rollout is not in it.

    Set by the engine: `prompt, completion, answer, info, task, example_id, trajectory, model, sampling_args, rng,
    tool_defs, is_completed, is_truncated, stop_condition, error, reward, metrics, timing, usage, trajectory_id,
    final_env_response`. The task's own columns stand beside them, copied deeply for each rollout.
    """
