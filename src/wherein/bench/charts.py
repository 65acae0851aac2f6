"""Charts of what is in a data set, as SVG: bars, boxes, heat maps. They follow the page's colours, or stand alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

ROW = 17  # height of a bar and its label
LABEL = 210  # width of the labels
CHART = 420  # width of the drawing
STYLE = (
    "svg{--ink:#1d1f23;--soft:#696e77;--rule:#e7e4de;--accent:#1f6f66;--bad:#b0492f;"
    "--line-0:#1f6f66;--line-1:#c2703d;--line-2:#4a67ad;--line-3:#97507f;--line-4:#7c8a2e;--line-5:#4c9cb5;"
    "--line-6:#a8453d;--line-7:#6d6a75;font-family:sans-serif;background:#fff}"
    "text{fill:var(--soft);font-size:11px}.rule{stroke:var(--rule)}polyline{stroke-width:1.8}"
)


@dataclass(frozen=True)
class Chart:
    """A chart: `name` is its file's, `title` says what it shows, `svg` draws it."""

    name: str
    title: str
    svg: str

    def alone(self) -> str:
        """The chart as an SVG file of its own."""
        body = self.svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        head, _, rest = body.partition(">")
        return f"{head}><title>{escape(self.title)}</title><style>{STYLE}</style>{rest}\n"

    def figure(self) -> str:
        """The chart as part of a page."""
        return f'<figure class="wide">{self.svg}</figure>'


def _svg(width: float, height: float, parts: Sequence[str], *, label: str) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width * 1.4:.0f}px"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def bars(values: Mapping[str, float], *, label: str, groups: Sequence[str] = ()) -> str:
    """Horizontal bars in the order given; `groups` are beginnings of labels, each with a colour of its own."""
    most = max(values.values(), default=0) or 1
    parts = []
    for row, (name, value) in enumerate(values.items()):
        y, width = row * ROW, CHART * value / most
        group = next((number for number, prefix in enumerate(groups) if name.startswith(prefix)), 0)
        parts.append(f'<text x="{LABEL - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<rect x="{LABEL}" y="{y + 2}" width="{max(width, 0.5):.1f}" height="{ROW - 4}" '
            f'fill="var(--line-{group % 8})"><title>{escape(name)}: {value:g}</title></rect>'
        )
        parts.append(f'<text x="{LABEL + width + 5:.1f}" y="{y + 12}">{value:,g}</text>')
    return _svg(LABEL + CHART + 70, ROW * len(values) + 4, parts, label=label)


def boxes(spreads: Mapping[str, Sequence[float]], *, label: str, unit: str) -> str:
    """Box plots on a logarithmic axis: 10th, 25th, 50th, 75th and 90th percentile, as the SearchAD paper draws them."""
    drawn = {name: np.percentile(values, (10, 25, 50, 75, 90)) for name, values in spreads.items() if len(values)}
    everything = [max(float(value), 1e-9) for spread in drawn.values() for value in spread]
    low = math.floor(math.log10(min(everything, default=1)))
    high = max(math.ceil(math.log10(max(everything, default=10))), low + 1)
    height = ROW * 2 * len(drawn)

    def at(value: float) -> float:
        return LABEL + CHART * (math.log10(max(value, 1e-9)) - low) / (high - low)

    parts = []
    for power in range(low, high + 1):
        x = at(10.0**power)
        parts.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height + 14}" text-anchor="middle">{10.0**power:g}</text>')
    for row, (name, (p10, q1, middle, q3, p90)) in enumerate(drawn.items()):
        y = row * 2 * ROW + ROW
        said = f"{name}: median {middle:g}, half between {q1:g} and {q3:g}, eight tenths between {p10:g} and {p90:g}"
        parts.append(f'<text x="{LABEL - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<line x1="{at(p10):.1f}" x2="{at(p90):.1f}" y1="{y}" y2="{y}" stroke="var(--soft)"/>')
        for end in (p10, p90):
            parts.append(
                f'<line x1="{at(end):.1f}" x2="{at(end):.1f}" y1="{y - 5}" y2="{y + 5}" stroke="var(--soft)"/>'
            )
        parts.append(
            f'<rect x="{at(q1):.1f}" y="{y - 9}" width="{max(at(q3) - at(q1), 1):.1f}" height="18" '
            f'fill="var(--accent)" fill-opacity="0.35" stroke="var(--accent)"><title>{escape(said)}</title></rect>'
        )
        x = at(middle)
        line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 9}" y2="{y + 9}" stroke="var(--bad)" stroke-width="2"/>'
        parts.append(line)
    parts.append(f'<text x="{LABEL + CHART / 2}" y="{height + 32}" text-anchor="middle">{escape(unit)}</text>')
    return _svg(LABEL + CHART + 30, height + 38, parts, label=label)


def decline(lines: Mapping[str, Sequence[float]], *, label: str, unit: str) -> str:
    """How often each class occurs, most frequent first, on a logarithmic axis; a line for each set."""
    shown = {name: sorted((value for value in values if value > 0), reverse=True) for name, values in lines.items()}
    everything = [value for values in shown.values() for value in values]
    low = math.floor(math.log10(min(everything, default=1)))
    high = max(math.ceil(math.log10(max(everything, default=10))), low + 1)
    height, longest = 260, max((len(values) for values in shown.values()), default=1)

    def at(number: int, value: float) -> tuple[float, float]:
        across = 70 + (CHART + LABEL - 90) * number / max(longest - 1, 1)
        return across, height * (1 - (math.log10(value) - low) / (high - low)) + 8

    parts = []
    for power in range(low, high + 1):
        y = at(0, 10.0**power)[1]
        parts.append(f'<line class="rule" x1="70" x2="{CHART + LABEL - 20}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="62" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for number, (name, values) in enumerate(shown.items()):
        points = " ".join("{:.1f},{:.1f}".format(*at(place, value)) for place, value in enumerate(values))
        colour = f"var(--line-{number % 8})"
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        parts.append(f'<text x="{CHART + LABEL - 24}" y="{20 + 15 * number}" text-anchor="end" style="fill:{colour}">')
        parts.append(f"{escape(name)}</text>")
    parts.append(f'<text x="{(CHART + LABEL) / 2}" y="{height + 30}" text-anchor="middle">{escape(unit)}</text>')
    return _svg(CHART + LABEL, height + 36, parts, label=label)


def heat(maps: Mapping[str, NDArray[np.float64]], *, label: str) -> str:
    """Heat maps side by side, each scaled by its own largest value; darker is more."""
    cell, gap = 9, 24
    parts: list[str] = []
    left, tallest = 0, 0
    for name, values in maps.items():
        rows, columns = values.shape
        most = float(values.max()) or 1.0
        parts.append(f'<text x="{left}" y="12">{escape(name)}</text>')
        for (row, column), value in np.ndenumerate(values):
            if value > 0:
                parts.append(
                    f'<rect x="{left + column * cell}" y="{18 + row * cell}" width="{cell}" height="{cell}" '
                    f'fill="var(--accent)" fill-opacity="{value / most:.3f}"/>'
                )
        frame = f'width="{columns * cell}" height="{rows * cell}" fill="none" stroke="var(--soft)"'
        parts.append(f'<rect x="{left}" y="18" {frame}/>')
        left += columns * cell + gap
        tallest = max(tallest, rows * cell)
    return _svg(max(left - gap, 10), tallest + 22, parts, label=label)
