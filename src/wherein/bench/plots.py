"""Plots as inline SVG: lines and matrices. Colours are CSS variables, so that they follow light and dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from wherein.bench.evaluation import Line

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 14, 14, 40
MOST_POINTS = 400  # per line; more cannot be seen at this size
COLOURS = 8  # --line-0 … --line-7 in the page


@dataclass(frozen=True)
class _Scale:
    """One axis: values to fractions of its length; depths that span decades are spaced by their logarithm."""

    low: float
    high: float
    decades: bool = False

    @classmethod
    def of(cls, values: Sequence[float]) -> "_Scale":
        """[0, 1] for fractions, the values' own range otherwise."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        if low >= 0 and high <= 1:
            return cls(0.0, 1.0)
        return cls(low, high, decades=low >= 1 and high >= 50 * low) if high > low else cls(low - 0.5, high + 0.5)

    def at(self, value: float) -> float:
        """Where a value lies, 0 … 1."""
        if self.decades:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Even steps, or powers of ten with the ends."""
        if not self.decades:
            return [self.low + (self.high - self.low) * step / 5 for step in range(6)]
        powers = [10.0**n for n in range(math.ceil(math.log10(self.low)), int(math.log10(self.high)) + 1)]
        far = [power for power in powers if 0.07 < self.at(power) < 0.93]
        return [self.low, *far, self.high]


def _thinned(count: int) -> list[int]:
    """At most MOST_POINTS positions, always with the first and the last."""
    if count <= MOST_POINTS:
        return list(range(count))
    return [round(step * (count - 1) / (MOST_POINTS - 1)) for step in range(MOST_POINTS)]


def line_plot(curves: Sequence[Line]) -> str:
    """Curves that share their axes, in one plot with a legend."""
    x_scale = _Scale.of([value for curve in curves for value in curve.x])
    y_scale = _Scale.of([value for curve in curves for value in curve.y])

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + x_scale.at(x) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - y_scale.at(y) * (HEIGHT - TOP - BOTTOM)
        return round(across, 2), round(down, 2)

    parts = [_axes(curves[0], x=x_scale, y=y_scale)]
    for number, curve in enumerate(curves):
        points = " ".join("{},{}".format(*at(curve.x[i], curve.y[i])) for i in _thinned(len(curve.x)))
        colour = f"var(--line-{number % COLOURS})"
        name = f"<title>{escape(curve.name)}</title>"
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}">{name}</polyline>')
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="'
        f'{escape(curves[0].y_label)} against {escape(curves[0].x_label)}">{"".join(parts)}</svg>'
    )
    return f"<figure>{svg}{_legend(curves)}</figure>"


def _axes(curve: Line, *, x: _Scale, y: _Scale) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value in y.ticks():
        down = bottom - y.at(value) * (bottom - TOP)
        parts.append(f'<line class="rule" x1="{LEFT}" y1="{down:.1f}" x2="{right}" y2="{down:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{down + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    for value in x.ticks():
        across = LEFT + x.at(value) * (right - LEFT)
        parts.append(f'<text x="{across:.1f}" y="{bottom + 17}" text-anchor="middle">{_number(value)}</text>')
    middle_x, middle_y = (LEFT + right) / 2, (TOP + bottom) / 2
    name = escape(curve.x_label)
    parts.append(f'<text class="axis" x="{middle_x}" y="{HEIGHT - 4}" text-anchor="middle">{name}</text>')
    parts.append(
        f'<text class="axis" transform="translate(11,{middle_y}) rotate(-90)" text-anchor="middle">'
        f"{escape(curve.y_label)}</text>"
    )
    return "".join(parts)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _legend(curves: Sequence[Line]) -> str:
    if len(curves) == 1:
        return f"<figcaption>{escape(curves[0].name)}</figcaption>"
    items = "".join(
        f'<span><i style="background:var(--line-{number % COLOURS})"></i>{escape(curve.name)}</span>'
        for number, curve in enumerate(curves)
    )
    return f'<figcaption class="legend">{items}</figcaption>'


def line_plots(curves: Sequence[Line]) -> str:
    """Every curve, those with the same axes together, at most eight lines to a plot."""

    def axes(curve: Line) -> tuple[str, str]:
        return curve.x_label, curve.y_label

    drawn = []
    for _, group in groupby(sorted((c for c in curves if c.x), key=axes), key=axes):
        together = list(group)
        for start in range(0, len(together), COLOURS):
            drawn.append(line_plot(together[start : start + COLOURS]))
    return "".join(drawn)


def matrix_plot(labels: Sequence[str], rows: Sequence[Sequence[float]], *, caption: str) -> str:
    """A square matrix of fractions as a heat map: rows are what was asked, columns what was found."""
    cell = max(7, min(26, 900 // max(len(labels), 1)))
    margin = 14 + int(5.2 * max((len(label) for label in labels), default=0))
    side = margin + cell * len(labels) + margin // 2  # the last slanted label leans to the right
    parts = []
    for i, (label, row) in enumerate(zip(labels, rows, strict=True)):
        y = margin + i * cell
        name = escape(label)
        parts.append(f'<text x="{margin - 6}" y="{y + cell * 0.72:.1f}" text-anchor="end">{name}</text>')
        turn = f"translate({margin + (i + 0.7) * cell:.1f},{margin - 6}) rotate(-60)"
        parts.append(f'<text transform="{turn}">{name}</text>')
        for j, value in enumerate(row):
            if value > 0:
                parts.append(
                    f'<rect x="{margin + j * cell}" y="{y}" width="{cell - 1}" height="{cell - 1}" '
                    f'fill="var(--accent)" fill-opacity="{0.06 + 0.94 * value:.3f}">'
                    f"<title>{name} → {escape(labels[j])}: {100 * value:.1f} %</title></rect>"
                )
    size = f"0 0 {side} {side - margin // 2 + 4}"
    style, name = f"max-width:{side + 200}px", escape(caption)
    opening = f'<svg class="matrix" style="{style}" viewBox="{size}" role="img" aria-label="{name}">'
    svg = f"{opening}{''.join(parts)}</svg>"
    return f'<figure class="wide">{svg}<figcaption>{escape(caption)}</figcaption></figure>'
