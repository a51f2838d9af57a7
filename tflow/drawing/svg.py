"""A drawing as an SVG file that needs nothing else: its own background, for light and for dark surroundings."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from tflow.drawing.layout import layout
from tflow.drawing.model import WHERE, Graph, Node
from tflow.drawing.placed import LINE, SMALL, SMALL_LINE, TEXT, Box, Frame, Layout, Wire
from tflow.drawing.wrapping import width

MARGIN = 24.0
TITLE = 46.0
LEGEND = 40.0
WIDEST_PAGE = 1500.0
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
Colours = dict[str, tuple[str, ...]]
LIGHT: Colours = {
    "card": ("#ffffff", "#d0d7de"),
    "actor": ("#ddf4ff", "#54aeff", "#0a3069"),
    "driver": ("#eefbf1", "#4ac26b", "#0f3d1e"),
    "learner": ("#fff8c5", "#d4a72c", "#4d2d00"),
    "unknown": ("#ffebe9", "#ff8182", "#82071e"),
    "ink": ("#1f2328",),
    "soft": ("#59636e",),
    "wire": ("#8c959f",),
    "mark": ("#9a3412",),
    "frame": ("#f6f8fa", "#afb8c1"),
}
DARK: Colours = {
    "card": ("#0d1117", "#30363d"),
    "actor": ("#10233f", "#388bfd", "#cae8ff"),
    "driver": ("#12261e", "#2ea043", "#d2f5d8"),
    "learner": ("#2b2111", "#bb8009", "#f8e3a1"),
    "unknown": ("#2d1519", "#f85149", "#ffc1ba"),
    "ink": ("#e6edf3",),
    "soft": ("#9198a1",),
    "wire": ("#6e7681",),
    "mark": ("#f0883e",),
    "frame": ("#151b23", "#3d444d"),
}
EXPLAINED = {
    "input": "comes from outside",
    "flow": "not looked into (--expand)",
    "unknown": "could not be followed",
}


def svg(graph: Graph, *, down: bool | None = None) -> str:
    """The drawing, the flow going to the right, or ``down``; unless that is said, down if it would get too wide for a page."""
    placed = layout(graph, down=bool(down))
    if down is None and placed.width > WIDEST_PAGE:
        placed = layout(graph, down=True)
    down = placed.down
    legend = legend_of(graph, MARGIN)
    wide = max(placed.width, width([graph.title], TEXT + 3), legend[1] - MARGIN) + 2 * MARGIN
    high = placed.height + TITLE + LEGEND + MARGIN
    middle = (wide - 2 * MARGIN - placed.width) / 2 if down else 0.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}" '
        f'role="img" font-family="{escape(FONT)}">',
        f"<title>{escape(graph.title)}</title>",
        f"<style>{style(LIGHT)}@media (prefers-color-scheme: dark){{{style(DARK)}}}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{wide - 1:.0f}" height="{high - 1:.0f}" rx="12"/>',
        f'<text class="ink" x="{MARGIN}" y="32" font-size="{TEXT + 3}" font-weight="600">{escape(graph.title)}</text>',
        f'<g transform="translate({MARGIN + middle:.1f} {TITLE + 12:.1f})">',
        *map(frame, placed.frames),
        *(wire(each, placed) for each in placed.wires),
        *map(box, placed.boxes),
        "</g>",
        f'<g transform="translate(0 {high - 18:.1f})">{legend[0]}</g>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def style(colours: Colours) -> str:
    """Classes for everything that has a colour."""
    rules = [
        f".card{{fill:{colours['card'][0]};stroke:{colours['card'][1]}}}",
        f".ink{{fill:{colours['ink'][0]}}}.soft{{fill:{colours['soft'][0]}}}.mark{{fill:{colours['mark'][0]}}}",
        f".wire{{stroke:{colours['wire'][0]};fill:none}}.head{{fill:{colours['wire'][0]}}}",
        f".frame{{fill:{colours['frame'][0]};stroke:{colours['frame'][1]}}}",
    ]
    for name in (*WHERE, "unknown"):
        fill, stroke, ink = colours[name]
        rules.append(f".{name}{{fill:{fill};stroke:{stroke}}}.{name}-ink{{fill:{ink}}}")
    return "".join(rules)


def colour(node: Node) -> str:
    """The class of a node: where it runs, unless it could not be followed."""
    return "unknown" if node.kind == "unknown" else node.where


def box(drawn: Box) -> str:
    """A rounded box with its label. Dashed: from outside. Double: more is behind it."""
    node, name = drawn.node, colour(drawn.node)
    x, y, wide, high = drawn.x, drawn.y, drawn.width, drawn.height
    radius = {"input": high / 2, "choice": high / 2, "end": high / 2}.get(node.kind, 8.0)
    dashed = ' stroke-dasharray="5 3"' if node.kind in ("input", "unknown") else ""
    hint = f"{node.label}\n{node.yields}" + (f"\nline {node.line}" if node.line is not None else "")
    parts = [
        f'<g class="node"><title>{escape(hint)}</title>',
        rect(name, x, y, wide, high, radius, f' stroke-width="1.4"{dashed}'),
    ]
    if node.kind == "flow":
        parts.append(rect(name, x + 3, y + 3, wide - 6, high - 6, radius - 2, ' stroke-width="0.8"'))
    if node.kind == "container":
        parts.append(rect(name, x + 5, y - 4, wide - 10, 4, 2, ' stroke-width="1"'))
    top = y + high / 2 - (len(drawn.lines) - 1) * LINE / 2 + TEXT * 0.35
    parts.append(lines_of(drawn.lines, x + wide / 2, top, LINE, f'class="{name}-ink" font-size="{TEXT}" text-anchor="middle"'))
    return "".join([*parts, "</g>"])


def rect(name: str, x: float, y: float, wide: float, high: float, radius: float, more: str = "") -> str:
    return f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="{radius:.1f}"{more}/>'


def lines_of(lines: tuple[str, ...], x: float, y: float, step: float, how: str) -> str:
    """Text of several lines, the first at a height."""
    rows = (f'<tspan x="{x:.1f}" y="{y + index * step:.1f}">{escape(line)}</tspan>' for index, line in enumerate(lines))
    return f'<text {how} xml:space="preserve">{"".join(rows)}</text>'


def frame(drawn: Frame) -> str:
    """A group: what is in it stands on a ground of its own."""
    title = (
        f'<text class="soft" x="{drawn.x + 10:.1f}" y="{drawn.y + 16:.1f}" font-size="{SMALL}">{escape(drawn.group.title)}</text>'
    )
    more = ' stroke-dasharray="2 3"'
    return f'<g class="group">{rect("frame", drawn.x, drawn.y, drawn.width, drawn.height, 10, more)}{title}</g>'


def wire(drawn: Wire, placed: Layout) -> str:
    """An edge with an arrow at its end and its type beside it."""
    points = []
    for first, last, across in drawn.runs:
        points.extend([(first, across)] if first == last else [(first, across), (last, across)])
    tip = points[-1]
    points[-1] = (tip[0] - 7, tip[1])  # the arrow covers the rest
    path = f"M{at(points[0], placed)}"
    for before, here in pairwise(points):
        if abs(before[1] - here[1]) < 0.05:
            path += f"L{at(here, placed)}"
        else:
            half = (before[0] + here[0]) / 2
            path += f"C{at((half, before[1]), placed)} {at((half, here[1]), placed)} {at(here, placed)}"
    head = " ".join(at((tip[0] - back, tip[1] + side), placed) for back, side in ((0, 0), (8, -4), (8, 4)))
    hint = f"{drawn.edge.shown} {drawn.edge.mark}".strip()
    return (
        f'<g class="edge"><title>{escape(hint)}</title><path class="wire" stroke-width="1.5" d="{path}"/>'
        f'<polygon class="head" points="{head}"/>{label(drawn, placed.down)}</g>'
    )


def at(point: tuple[float, float], placed: Layout) -> str:
    """A point of a wire, in the coordinates of the picture."""
    x, y = point[::-1] if placed.down else point
    return f"{x:.1f} {y:.1f}"


def label(drawn: Wire, down: bool) -> str:
    """The type above the wire and the mark below it; or both to its right."""
    found = drawn.label
    how = f'class="soft" font-size="{SMALL}"'
    marked = f'class="mark" font-size="{SMALL}"'
    if down:
        total = len(found.lines) + len(found.mark)
        top = found.y - (total - 1) * SMALL_LINE / 2 + SMALL * 0.35
        text = lines_of(found.lines, found.x + 8, top, SMALL_LINE, how)
        below = top + len(found.lines) * SMALL_LINE
        return text + (lines_of(found.mark, found.x + 8, below, SMALL_LINE, marked) if found.mark else "")
    top = found.y - 5 - (len(found.lines) - 1) * SMALL_LINE
    text = lines_of(found.lines, found.x, top, SMALL_LINE, f'{how} text-anchor="middle"')
    below = found.y + SMALL_LINE
    return text + (lines_of(found.mark, found.x, below, SMALL_LINE, f'{marked} text-anchor="middle"') if found.mark else "")


def legend_of(graph: Graph, x: float) -> tuple[str, float]:
    """What the colours and outlines in the picture mean, and where it ends."""
    kinds = {node.kind for node in graph.nodes}
    shown: list[tuple[str, str, str]] = [(name, "", name) for name in WHERE if any(colour(node) == name for node in graph.nodes)]
    shown += [("unknown" if kind == "unknown" else "driver", kind, text) for kind, text in EXPLAINED.items() if kind in kinds]
    parts = []
    for name, kind, text in shown:
        dashed = ' stroke-dasharray="4 2"' if kind in ("input", "unknown") else ""
        parts.append(rect(name, x, -10, 16, 12, 6 if kind == "input" else 3, dashed))
        if kind == "flow":
            parts.append(rect(name, x + 2.5, -7.5, 11, 7, 1))
        parts.append(f'<text class="soft" x="{x + 22:.1f}" y="0" font-size="{SMALL}">{escape(text)}</text>')
        x += 22 + width([text], SMALL) + 22
    return "".join(parts), x
