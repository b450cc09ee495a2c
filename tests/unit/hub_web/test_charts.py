"""Charts: true to their numbers, safe whatever their names say."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from sandlot.hub.web import charts
from sandlot.hub.web.charts import Bar, Frame, Lane, Part, Point, Series, Table
from sandlot.hub.web.charts.lines import thinned

HOSTILE = "</svg><script>alert(1)</script>\"'&"
numbers = st.floats(-1e9, 1e9)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(1, 8))
def test_ticks_are_in_order_and_within_the_range(low: float, width: float, most: int) -> None:
    found = charts.ticks(low, low + width, most)
    assert len(found) <= most + 1
    assert found == sorted(found)
    assert all(low - width * 1e-6 <= tick <= low + width * (1 + 1e-6) for tick in found)


@given(st.lists(st.tuples(st.integers(0, 1000), numbers), min_size=1, max_size=60, unique_by=lambda pair: pair[0]))
def test_a_line_chart_is_a_picture_with_every_point_inside(points: list[tuple[int, float]]) -> None:
    series = Series("reward", [Point(x, y) for x, y in sorted(points)], marked=True)
    drawn = ElementTree.fromstring(charts.line_chart([series], Frame(width=1000, height=150), title="Reward"))
    circles = [one for one in drawn.iter("circle") if one.get("class") == "mark"]
    assert len(circles) == len(points)
    for one in circles:
        assert 0 <= float(one.get("cx", "-1")) <= 1000
        assert 0 <= float(one.get("cy", "-1")) <= 150


def test_axes_start_at_zero() -> None:
    drawn = charts.line_chart([Series("a", [Point(0, 90.0), Point(1, 100.0)])], Frame(y=(0, 0)), title="A")
    labels = re.findall(r">(\d+)</text>", drawn)
    assert "0" in labels
    assert "100" in labels


def test_an_eighth_line_is_refused() -> None:
    series = [Series(str(n), [Point(0, 1.0)]) for n in range(8)]
    with pytest.raises(ValueError, match="at most 7"):
        charts.line_chart(series, Frame(), title="Too many")


def test_nothing_to_draw_draws_nothing() -> None:
    assert charts.line_chart([], Frame(), title="") == ""
    assert charts.ranked_bars([], Frame(), title="") == ""
    assert charts.waterfall([], title="", total=1.0) == ""
    assert charts.stacked_areas([], Frame(), title="") == ""


def test_labels_of_lines_that_end_together_do_not_cover_each_other() -> None:
    series = [Series(f"line {n}", [Point(0, 0.5), Point(1, 0.5)]) for n in range(4)]
    drawn = ElementTree.fromstring(charts.line_chart(series, Frame(), title="Same"))
    rows = sorted(float(t.get("y", "0")) for t in drawn.iter("text") if (t.get("class") or "").startswith("label"))
    assert len(rows) == 4
    assert all(b - a >= 13.9 for a, b in pairwise(rows))


def test_hundreds_of_tasks_are_drawn_as_means_of_neighbours() -> None:
    bars = [Bar(f"task {n}", n / 999) for n in range(1000)]
    drawn = charts.ranked_bars(bars, Frame(), title="Reward by task")
    assert drawn.count('class="bar ') == charts.MOST_BARS


def test_a_reward_of_zero_can_still_be_seen() -> None:
    drawn = charts.ranked_bars([Bar("zero", 0.0), Bar("one", 1.0)], Frame(), title="Reward")
    heights = [float(height) for height in re.findall(r'class="bar [^>]*height="([\d.]+)"', drawn)]
    assert len(heights) == 2
    assert min(heights) >= 1.5


def test_a_hostile_name_stays_text_in_every_chart() -> None:
    pictures = [
        charts.line_chart([Series(HOSTILE, [Point(0, 1.0)]), Series("b", [Point(0, 2.0)])], Frame(), title=HOSTILE),
        charts.stacked_areas([Series(HOSTILE, [Point(0, 1.0), Point(1, 1.0)])], Frame(), title=HOSTILE),
        charts.ranked_bars([Bar(HOSTILE, 1.0, href=HOSTILE)], Frame(), title=HOSTILE),
        charts.share_bar([Part(HOSTILE, 1.0, HOSTILE)], title=HOSTILE),
        charts.waterfall([Lane(HOSTILE, [(0.0, 1.0)])], title=HOSTILE, total=1.0),
    ]
    drawn = charts.figure(HOSTILE, pictures[:1], table=Table((HOSTILE, "b"), [(HOSTILE, "1")]), note=HOSTILE)
    for one in [*pictures, drawn]:
        assert "<script" not in one
        ElementTree.fromstring(one.replace("class=num", 'class="num"'))


def test_a_figure_has_its_numbers_behind_it() -> None:
    drawn = charts.figure("Reward", ["<svg/>"], table=Table(("Step", "Reward"), [("1", "0.5")]))
    assert "<details" in drawn
    assert "<td>1</td><td class=num>0.5</td>" in drawn


def test_smoothing_keeps_a_constant_and_starts_at_the_first_value() -> None:
    assert charts.smoothed([0.4] * 20) == pytest.approx([0.4] * 20)
    assert charts.smoothed([1.0, 0.0, 0.0])[0] == 1.0


@given(st.integers(1, 3000), st.integers(1, 9))
def test_a_long_series_is_thinned_to_what_pixels_show_and_keeps_its_ends(count: int, pixels: int) -> None:
    values = list(range(count))
    kept = list(thinned(values, Frame(width=330, left=46, right=12), pixels))
    assert kept[0] == 0
    assert kept[-1] == count - 1
    assert kept == sorted(set(kept))
    assert len(kept) <= max(2, 272 // pixels) + 1
