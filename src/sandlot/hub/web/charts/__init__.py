"""Charts as SVG text, drawn on the server. Pure functions: numbers in, markup out, every word of it escaped.

Invariants: axes start at zero unless the caller says otherwise and the title with it; at most seven lines; a chart
stands in a figure with a table of its numbers behind it.
"""

from sandlot.hub.web.charts.bars import MOST_BARS, Bar, Lane, Part, averaged, ranked_bars, share_bar, waterfall
from sandlot.hub.web.charts.figure import MOST_ROWS, Table, figure
from sandlot.hub.web.charts.frame import Frame, ticks
from sandlot.hub.web.charts.lines import MOST_LINES, Point, Series, line_chart, smoothed, stacked_areas

__all__ = [
    "MOST_BARS",
    "MOST_LINES",
    "MOST_ROWS",
    "Bar",
    "Frame",
    "Lane",
    "Part",
    "Point",
    "Series",
    "Table",
    "averaged",
    "figure",
    "line_chart",
    "ranked_bars",
    "share_bar",
    "smoothed",
    "stacked_areas",
    "ticks",
    "waterfall",
]
