"""Pure functions: intervals, pass@k, paired tests, percentiles. Nothing is ever NaN; what is not known is None."""

from sandlot.stats.intervals import Interval, mean, mean_interval, standard_error, wilson
from sandlot.stats.paired import Paired, paired
from sandlot.stats.passes import pass_at_k, pass_hat_k
from sandlot.stats.percentiles import percentile, percentiles
from sandlot.stats.student import t_cdf, t_quantile
from sandlot.stats.tasks import Compared, TaskKey, TaskPair, compare_tasks, holm

__all__ = [
    "Compared",
    "Interval",
    "Paired",
    "TaskKey",
    "TaskPair",
    "compare_tasks",
    "holm",
    "mean",
    "mean_interval",
    "paired",
    "pass_at_k",
    "pass_hat_k",
    "percentile",
    "percentiles",
    "standard_error",
    "t_cdf",
    "t_quantile",
    "wilson",
]
