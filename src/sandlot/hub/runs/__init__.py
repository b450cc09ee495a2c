"""Runs and their rollouts, as the hub keeps and shows them."""

from sandlot.hub.runs.source import (
    OUTCOMES,
    SORTS,
    Page,
    RolloutRow,
    RowQuery,
    RunRow,
    RunSource,
    RunSummary,
    TaskScore,
    row_of,
)

__all__ = [
    "OUTCOMES",
    "SORTS",
    "Page",
    "RolloutRow",
    "RowQuery",
    "RunRow",
    "RunSource",
    "RunSummary",
    "TaskScore",
    "row_of",
]
