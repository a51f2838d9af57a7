"""Line charts as SVG, drawn by hand: curves with bands, a grid with round numbers, the values as data for who points at them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tflow.drawing.placed import SMALL
from tflow.drawing.wrapping import width

HUES = 8
"""Series have so many colours, ``s0`` to ``s7``; the next ones have the same with dashes."""
TITLE, TICK = 13.0, SMALL
MOST_POINTS = 240
"""Of a curve that is drawn; of more, every second, third and so on is left out."""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    """One curve."""

    name: str
    points: Points
    hue: int = 0
    band: Sequence[tuple[float, float, float]] = ()
    """Where, from, to."""
    faint: bool = False
    """One of several that stand behind another."""
    dots: bool = False
    """Each point is marked: there are few."""


@dataclass(frozen=True)
class Chart:
    """What is drawn."""

    title: str
    x_label: str
    series: tuple[Series, ...]
    level: float | None = None
    """A value that is marked."""
    level_name: str = ""

    @property
    def empty(self) -> bool:
        return not any(each.points for each in self.series)


@dataclass(frozen=True)
class PlotFrame:
    """Where values are in the picture."""

    left: float
    top: float
    right: float
    bottom: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.x, self.y
        across = self.left + (x - x0) / (x1 - x0) * (self.right - self.left)
        return across, self.bottom - (y - y0) / (y1 - y0) * (self.bottom - self.top)


def chart_svg(chart: Chart, wide: float = 420.0, high: float = 240.0) -> str:
    """The chart, so many units wide and high. Its colours are classes, which the page around it defines."""
    x_ticks, y_ticks, frame = framed(chart, wide, high)
    parts = [
        f'<svg class="chart" viewBox="0 0 {wide:.0f} {high:.0f}" role="img" aria-label="{escape(said(chart), quote=True)}" '
        f'data-chart="{escape(json.dumps(data_of(chart, frame)), quote=True)}">',
        f'<text class="c-title" x="2" y="15" font-size="{TITLE:g}">{escape(fitted(chart.title, wide - 4, TITLE))}</text>',
        *grid(frame, x_ticks, y_ticks),
        f'<text class="c-tick" x="{frame.right:.1f}" y="{high - 4:.1f}" font-size="{TICK:g}" text-anchor="end">'
        f"{escape(chart.x_label)}</text>",
    ]
    if chart.level is not None:
        parts += level(frame, chart.level, chart.level_name)
    parts += [drawn for each in sorted(chart.series, key=lambda each: not each.faint) for drawn in curve(each, frame)]
    return "".join([*parts, '<line class="c-hair" y1="0" y2="0" x1="0" x2="0"/>', "</svg>"])


def framed(chart: Chart, wide: float, high: float) -> tuple[list[float], list[float], PlotFrame]:
    """Where the ticks are, and how much room the numbers at them leave."""
    xs = [x for each in chart.series for x, _ in each.points]
    strong = [each for each in chart.series if not each.faint] or list(chart.series)
    ys = [y for each in strong for _, y in each.points] + [v for each in strong for _, low, top in each.band for v in (low, top)]
    ys += [y for each in chart.series if each.faint for _, y in each.points]
    ys += [] if chart.level is None else [chart.level]
    y_ticks = ticks(*bounds(ys), 4 if high < 300 else 5)
    low, top = bounds(ys)
    y_range = min(low, y_ticks[0]), max(top, y_ticks[-1])
    left = width(labels(y_ticks), TICK) + 8
    x_low, x_high = bounds([0.0, *xs] if xs and min(xs) >= 0 else xs, pad=0.0)
    x_ticks = [each for each in ticks(x_low, x_high, max(2, round((wide - left) / 90))) if x_low <= each <= x_high]
    return x_ticks, y_ticks, PlotFrame(left, 26.0, wide - 8, high - 34.0, (x_low, x_high), y_range)


def bounds(values: Sequence[float], pad: float = 0.04) -> tuple[float, float]:
    """From the lowest to the highest, with some room; never nothing."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= 1e-8 * max(abs(low), abs(high), 1e-300):
        room = abs(low) * 0.1 or 1.0
        return low - room, high + room
    return low - pad * (high - low), high + pad * (high - low)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two values, about so many.

    >>> ticks(0, 500, 5)
    [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]
    """
    rough = (high - low) / max(most, 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(each * unit for each in (1, 2, 2.5, 5, 10) if each * unit >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    found = [rounded(place * step) for place in range(first, last + 1)]
    return found if len(found) > 1 else [rounded(low), rounded(high)]


def rounded(value: float) -> float:
    return float(f"{value:.10g}")


def labels(values: Sequence[float]) -> list[str]:
    """What stands at ticks: as short as they can be told apart."""
    found: list[str] = []
    for digits in range(4, 11):
        found = [short(value, digits) for value in values]
        if len(set(found)) == len(set(values)):
            break
    return found


def short(value: float, digits: int = 4) -> str:
    """
    >>> short(12_500), short(2_000_000), short(0.00012), short(0.25), short(-3)
    ('12.5k', '2M', '1.2e-4', '0.25', '-3')
    """
    size = abs(value)
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if limit <= size < 9.99e11:
            return f"{value / (1e3 if letter == 'k' else limit):.{digits}g}{letter}"
    if size and (size < 1e-3 or size >= 9.99e11):
        mantissa, _, power = f"{value:.{digits - 2}e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value:.{digits}g}"


def fitted(text: str, room: float, size: float) -> str:
    """A text that is cut if it has no room."""
    most = int(room / (size * 0.62))
    return text if len(text) <= most else f"{text[: max(most - 1, 1)]}…"


def grid(frame: PlotFrame, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> Iterator[str]:
    for value, text in zip(y_ticks, labels(y_ticks), strict=True):
        _, y = frame.at(frame.x[0], value)
        yield f'<path class="c-grid" d="M{frame.left:.1f} {y:.1f}H{frame.right:.1f}"/>'
        yield (
            f'<text class="c-tick" x="{frame.left - 6:.1f}" y="{y + 3.5:.1f}" font-size="{TICK:g}" text-anchor="end">'
            f"{text}</text>"
        )
    yield f'<path class="c-axis" d="M{frame.left:.1f} {frame.bottom:.1f}H{frame.right:.1f}"/>'
    for value, text in zip(x_ticks, labels(x_ticks), strict=True):
        x, _ = frame.at(value, frame.y[0])
        room = width([text], TICK) / 2
        x_text = min(max(x, frame.left + room - 8), frame.right - room + 6)
        yield f'<path class="c-axis" d="M{x:.1f} {frame.bottom:.1f}v4"/>'
        yield (
            f'<text class="c-tick" x="{x_text:.1f}" y="{frame.bottom + 15:.1f}" font-size="{TICK:g}" text-anchor="middle">'
            f"{text}</text>"
        )


def level(frame: PlotFrame, value: float, name: str) -> list[str]:
    """A value that is wanted."""
    _, y = frame.at(frame.x[0], value)
    text = fitted(name, frame.right - frame.left, TICK)
    return [
        f'<path class="c-level" d="M{frame.left:.1f} {y:.1f}H{frame.right:.1f}"/>',
        f'<text class="c-tick" x="{frame.left + 4:.1f}" y="{y - 4:.1f}" font-size="{TICK:g}">{escape(text)}</text>',
    ]


def curve(series: Series, frame: PlotFrame) -> Iterator[str]:
    """A band, a line, and dots."""
    hue = f"s{series.hue % HUES}"
    if len(series.band) > 1:
        upper = [frame.at(x, high) for x, _, high in thinned(series.band)]
        lower = [frame.at(x, low) for x, low, _ in thinned(series.band)]
        outline = "L".join(f"{x:.1f} {y:.1f}" for x, y in [*upper, *reversed(lower)])
        yield f'<path class="{hue} c-band" d="M{outline}Z"/>'
    placed = [frame.at(x, y) for x, y in thinned(series.points)]
    kind = "c-faint" if series.faint else "c-line"
    dashes = "" if series.hue < HUES else ' stroke-dasharray="6 3"'
    if len(placed) > 1:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        yield f'<path class="{hue} {kind}" d="M{path}"{dashes}><title>{escape(series.name)}</title></path>'
    if len(placed) == 1 or (series.dots and len(placed) <= 40):
        for x, y in placed:
            yield f'<circle class="{hue} c-dot" cx="{x:.1f}" cy="{y:.1f}" r="{1.8 if series.faint else 2.6}"/>'


def thinned(points: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """At most so many points, with the first and the last."""
    step = max(1, -(-len(points) // MOST_POINTS))
    return [*points[::step], *(points[-1:] if points and (len(points) - 1) % step else [])]


def data_of(chart: Chart, frame: PlotFrame) -> dict[str, object]:
    """What the values at a place are, for who points at it."""
    edges = [round(each, 1) for each in (frame.left, frame.top, frame.right, frame.bottom)]
    shown = [
        {
            "n": each.name,
            "h": each.hue,
            "p": [[float(f"{x:.6g}"), float(f"{y:.4g}")] for x, y in thinned(each.points)],
        }
        for each in chart.series
        if not each.faint and each.points
    ]
    return {"f": edges, "x": list(frame.x), "l": chart.x_label, "s": shown}


def said(chart: Chart) -> str:
    """The chart in a sentence, for who cannot see it."""
    ends: Iterable[Series] = [each for each in chart.series if each.points and not each.faint]
    values = ", ".join(f"{each.name} {short(each.points[-1][1])}" for each in ends)
    return f"{chart.title} over {chart.x_label}; at the end: {values or 'nothing'}"
