"""The box that a chart is drawn in: where its numbers fall, its axes, its ticks and their units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sandlot.hub.web import words


@dataclass(frozen=True, slots=True)
class Frame:
    """A chart's size in pixels, the range of its axes and what they are called."""

    width: int = 720
    height: int = 220
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    x_label: str = ""
    y_unit: str = ""
    left: int = 44
    right: int = 12
    top: int = 10
    bottom: int = 34

    def at_x(self, value: float) -> float:
        """The pixel column of a value."""
        low, high = self.x
        return self.left + (self.width - self.left - self.right) * ((value - low) / (high - low) if high > low else 0.5)

    def at_y(self, value: float) -> float:
        """The pixel row of a value, held inside the box."""
        low, high = self.y
        part = (value - low) / (high - low) if high > low else 0.5
        return self.top + (self.height - self.top - self.bottom) * (1 - min(1.0, max(0.0, part)))

    @property
    def floor(self) -> float:
        """The pixel row of the x axis."""
        return float(self.height - self.bottom)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, at most `most` + 1 of them, 1, 2 or 5 times a power of ten apart."""
    if not (math.isfinite(low) and math.isfinite(high)) or high - low < TINY:
        return [low]
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


TINY = 1e-200
"""What is smaller is drawn as zero: its ticks would be below what a float holds."""


def round_up(value: float) -> float:
    """The top of an axis that starts at zero and must hold `value`: the next tick above it."""
    if value < TINY or not math.isfinite(value):
        return 1.0
    steps = ticks(0, value)
    step = steps[1] - steps[0] if len(steps) > 1 else value
    return float(f"{math.ceil(value / step - 1e-9) * step:.12g}")


def span(values: Sequence[float]) -> tuple[float, float]:
    """The range of an axis for `values`: from zero, and below it only where a value is."""
    finite = [value for value in values if math.isfinite(value)] or [1.0]
    low, high = min(finite), max(finite)
    return (-round_up(-low) if low < 0 else 0.0, round_up(high) if high > 0 else (1.0 if low >= 0 else 0.0))


def pixel(value: float) -> str:
    """A coordinate with one decimal, so that a chart of hundreds of points stays small."""
    return f"{value:.1f}".removesuffix(".0")


def opening(frame: Frame, title: str, more: str = "") -> str:
    """The start of the picture; `title` is what a screen reader says."""
    return (
        f'<svg viewBox="0 0 {frame.width} {frame.height}" width="{frame.width}" height="{frame.height}" role="img"'
        f' aria-label="{escape(title)}"{more}>'
    )


def axes(frame: Frame) -> str:
    """Both axes."""
    return y_axis(frame) + x_axis(frame)


def y_axis(frame: Frame) -> str:
    """Lines across the box at round numbers; the topmost says the unit."""
    parts = []
    rows = ticks(*frame.y, most=4)
    for value in rows:
        y = pixel(frame.at_y(value))
        kind = "axis" if value == max(0.0, frame.y[0]) else "grid"
        parts.append(
            f'<line class="{kind}" x1="{frame.left}" x2="{frame.width - frame.right}" y1="{y}" y2="{y}"/>'
            f'<text x="{frame.left - 6}" y="{y}" dy="4" text-anchor="end">{words.number(value)}</text>'
        )
    if frame.y_unit:
        parts.append(f'<text x="{frame.left + 4}" y="{frame.top + 2}" dy="4">{escape(frame.y_unit)}</text>')
    return "".join(parts)


def x_axis(frame: Frame) -> str:
    """Round numbers under the box, and at its end what they are."""
    columns = ticks(*frame.x, most=max(5, (frame.width - frame.left - frame.right) // 80))
    parts = [
        f'<text x="{pixel(frame.at_x(value))}" y="{pixel(frame.floor + 16)}" text-anchor="middle">'
        f"{words.number(value)}</text>"
        for value in columns
    ]
    if frame.x_label:
        parts.append(
            f'<text x="{frame.width - frame.right}" y="{frame.height - 3}" text-anchor="end">'
            f"{escape(frame.x_label)}</text>"
        )
    return "".join(parts)
