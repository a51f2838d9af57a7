"""A drawing as an SVG file that needs nothing else: its own background, for light and for dark surroundings."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from tflow.drawing.layout import layout
from tflow.drawing.model import WHERE, Graph
from tflow.drawing.placed import BEHIND, LINE, SMALL, SMALL_LINE, TEXT, Box, Layout, Point, Route, Wire
from tflow.drawing.wrapping import width

MARGIN = 24.0
TITLE = 46.0
LEGEND = 22.0
"""A line of the legend."""
WIDEST_PAGE, NARROWEST_PAGE = 1700.0, 420.0
ROUND = 6.0
"""The corners of routes."""
LID = 5.0
"""Half the height of the lid of a cylinder."""
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
Colours = dict[str, tuple[str, ...]]
LIGHT: Colours = {
    "card": ("#ffffff", "#d0d7de"),
    "actor": ("#ddf4ff", "#54aeff", "#0a3069"),
    "driver": ("#eefbf1", "#4ac26b", "#0f3d1e"),
    "learner": ("#fff8c5", "#d4a72c", "#4d2d00"),
    "ink": ("#1f2328",),
    "soft": ("#59636e",),
    "wire": ("#6e7781",),
    "late": ("#bf3989",),
}
DARK: Colours = {
    "card": ("#0d1117", "#30363d"),
    "actor": ("#10233f", "#388bfd", "#cae8ff"),
    "driver": ("#12261e", "#2ea043", "#d2f5d8"),
    "learner": ("#2b2111", "#bb8009", "#f8e3a1"),
    "ink": ("#e6edf3",),
    "soft": ("#9198a1",),
    "wire": ("#848d97",),
    "late": ("#f778ba",),
}
LINES = {
    "sync": "synchronous",
    "barrier": "barrier: waits for all actors",
    "async": "asynchronous",
    "message": "message",
    "use": "works with",
}
STROKES = {
    "message": ' stroke-width="1.8" stroke-dasharray="0.1 4.5" stroke-linecap="round"',
    "use": ' stroke-width="1"',
}
USUAL_STROKE = ' stroke-width="1.5"'


def svg(graph: Graph, *, down: bool | None = None) -> str:
    """The drawing, the flow going to the right, or ``down``; unless that is said, down if it would get too wide for a page."""
    placed = layout(graph, down=bool(down))
    if down is None and placed.width > WIDEST_PAGE:
        placed = layout(graph, down=True)
    inside = max(placed.width, width([graph.title], TEXT + 3), NARROWEST_PAGE)
    legend = legend_of(graph, inside)
    wide, high = inside + 2 * MARGIN, placed.height + TITLE + 12 + MARGIN + LEGEND * len(legend) + 10
    middle = (inside - placed.width) / 2 if placed.down else 0.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}" '
        f'role="img" font-family="{escape(FONT)}">',
        f"<title>{escape(graph.title)}</title>",
        f"<style>{style(LIGHT)}@media (prefers-color-scheme: dark){{{style(DARK)}}}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{wide - 1:.0f}" height="{high - 1:.0f}" rx="12"/>',
        f'<text class="ink" x="{MARGIN}" y="32" font-size="{TEXT + 3}" font-weight="600">{escape(graph.title)}</text>',
        f'<g transform="translate({MARGIN + middle:.1f} {TITLE + 12:.1f})">',
        *map(route, placed.routes),
        *(wire(each, placed) for each in placed.wires),
        *map(box, placed.boxes),
        *map(route_label, placed.routes),
        "</g>",
        f'<g transform="translate({MARGIN} {high - LEGEND * len(legend):.1f})">',
        *(f'<g transform="translate(0 {LEGEND * row:.1f})">{line}</g>' for row, line in enumerate(legend)),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def style(colours: Colours) -> str:
    """Classes for everything that has a colour."""
    card, late, grey = colours["card"][0], colours["late"][0], colours["wire"][0]
    rules = [
        f".card{{fill:{card};stroke:{colours['card'][1]}}}",
        f".ink{{fill:{colours['ink'][0]}}}.soft{{fill:{colours['soft'][0]}}}",
        f".said{{fill:{late};stroke:{card};stroke-width:4px;paint-order:stroke}}",
    ]
    for kind in LINES:
        colour = late if kind in ("async", "message") else grey
        rules.append(
            f".{kind}{{stroke:{colour};fill:none}}.{kind}-head{{stroke:{colour};fill:{card if kind == 'async' else colour}}}"
        )
    for name in WHERE:
        fill, stroke, ink = colours[name]
        rules.append(f".{name}{{fill:{fill};stroke:{stroke}}}.{name}-ink{{fill:{ink}}}")
        rules.append(f".{name}-bar{{fill:{ink}}}.{name}-track{{fill:{stroke};opacity:0.35}}")
    return "".join(rules)


# --------------------------------------------------------------------------- boxes


def box(drawn: Box) -> str:
    """A rounded box or a cylinder with its label, and others behind it if there are several."""
    node, name = drawn.node, drawn.node.where
    behind = BEHIND if node.stacked else 0.0
    x, y, wide, high = drawn.x, drawn.y + behind, drawn.width - behind, drawn.height - behind
    shape = cylinder if node.shape == "actors" else dashed if node.shape == "input" else rect
    hint = f"{node.label}\n{node.yields}".strip()
    parts = [f'<g class="node"><title>{escape(hint)}</title>']
    parts += [shape(name, x + back, y - back, wide, high) for back in ((behind, behind / 2, 0.0) if behind else (0.0,))]
    if node.share:
        parts.append(busy_bar(name, x, y, wide, high, node.share))
    lid = LID if node.shape == "actors" else 0.0
    top = y + lid + high / 2 - (len(drawn.lines) - 1) * LINE / 2 + TEXT * 0.35
    parts.append(lines_of(drawn.lines, x + wide / 2, top, LINE, f'class="{name}-ink" font-size="{TEXT}" text-anchor="middle"'))
    return "".join([*parts, "</g>"])


def rect(name: str, x: float, y: float, wide: float, high: float, radius: float = 8.0, more: str = "") -> str:
    return (
        f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="{radius:.1f}" '
        f'stroke-width="1.4"{more}/>'
    )


def busy_bar(name: str, x: float, y: float, wide: float, high: float, share: float) -> str:
    """How busy a box was, along its lower edge."""
    whole, top = wide - 16, y + high - 6
    return (
        f'<rect class="{name}-track" x="{x + 8:.1f}" y="{top:.1f}" width="{whole:.1f}" height="3" rx="1.5"/>'
        f'<rect class="{name}-bar" x="{x + 8:.1f}" y="{top:.1f}" width="{whole * min(share, 1.0):.1f}" height="3" rx="1.5"/>'
    )


def dashed(name: str, x: float, y: float, wide: float, high: float) -> str:
    """The outline of a stream that comes from outside."""
    return rect(name, x, y, wide, high, high / 2, ' stroke-dasharray="5 3"')


def cylinder(name: str, x: float, y: float, wide: float, high: float, lid: float = LID) -> str:
    """Something that keeps what it is sent."""
    half = f"a{wide / 2:.1f} {lid:.1f} 0 0"
    side = high - 2 * lid
    path = f"M{x:.1f} {y + lid:.1f}{half} 1 {wide:.1f} 0v{side:.1f}{half} 1 {-wide:.1f} 0z"
    return f'<path class="{name}" stroke-width="1.4" d="{path}M{x:.1f} {y + lid:.1f}{half} 0 {wide:.1f} 0"/>'


def lines_of(lines: tuple[str, ...], x: float, y: float, step: float, how: str) -> str:
    """Text of several lines, the first at a height."""
    rows = (f'<tspan x="{x:.1f}" y="{y + index * step:.1f}">{escape(line)}</tspan>' for index, line in enumerate(lines))
    return f'<text {how} xml:space="preserve">{"".join(rows)}</text>'


# --------------------------------------------------------------------------- edges


def wire(drawn: Wire, placed: Layout) -> str:
    """An edge of the flow with an arrow at its end and its type beside it."""
    points: list[Point] = []
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
    kind = drawn.edge.kind
    head = " ".join(at((tip[0] - back, tip[1] + side), placed) for back, side in ((0, 0), (8, -4), (8, 4)))
    parts = [
        f'<g class="edge"><title>{escape(f"{drawn.edge.shown}, {LINES[kind]}")}</title>',
        f'<path class="{kind}" d="{path}"{USUAL_STROKE}/><polygon class="{kind}-head" points="{head}"/>',
    ]
    if kind == "barrier":
        ends = (at((tip[0] - 11, tip[1] + side), placed) for side in (-8, 8))
        parts.append(f'<path class="{kind}" stroke-width="3" d="M{"L".join(ends)}"/>')
    return "".join([*parts, label(drawn, placed.down), "</g>"])


def at(point: Point, placed: Layout) -> str:
    """A point of a wire, in the coordinates of the picture."""
    x, y = point[::-1] if placed.down else point
    return f"{x:.1f} {y:.1f}"


def label(drawn: Wire, down: bool) -> str:
    """The type, above the wire or to its right."""
    found, how = drawn.label, f'class="soft" font-size="{SMALL}"'
    if down:
        top = found.y - (len(found.lines) - 1) * SMALL_LINE / 2 + SMALL * 0.35
        return lines_of(found.lines, found.x + 8, top, SMALL_LINE, how)
    top = found.y - 5 - (len(found.lines) - 1) * SMALL_LINE
    return lines_of(found.lines, found.x, top, SMALL_LINE, f'{how} text-anchor="middle"')


def route(drawn: Route) -> str:
    """An edge to actors, with round corners; a message has an arrow."""
    kind, points = drawn.edge.kind, list(drawn.points)
    tip, before = points[-1], points[-2]
    step = unit(before, tip)
    if kind == "message":
        points[-1] = (tip[0] - 6 * step[0], tip[1] - 6 * step[1])
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (one, corner), (_, two) in pairwise(pairwise(points)):
        near = [min(ROUND, distance(corner, other) / 2) for other in (one, two)]
        (ax, ay), (bx, by) = unit(corner, one), unit(corner, two)
        path += f"L{corner[0] + ax * near[0]:.1f} {corner[1] + ay * near[0]:.1f}Q{corner[0]:.1f} {corner[1]:.1f} "
        path += f"{corner[0] + bx * near[1]:.1f} {corner[1] + by * near[1]:.1f}"
    path += f"L{points[-1][0]:.1f} {points[-1][1]:.1f}"
    hint = escape(drawn.edge.shown or LINES[kind])
    parts = [f'<g class="edge"><title>{hint}</title><path class="{kind}" d="{path}"{STROKES[kind]}/>']
    if kind == "message":
        corners = ((0, 0), (7, -3.5), (7, 3.5))
        head = (
            f"{tip[0] - back * step[0] - side * step[1]:.1f} {tip[1] - back * step[1] + side * step[0]:.1f}"
            for back, side in corners
        )
        parts.append(f'<polygon class="{kind}-head" points="{" ".join(head)}"/>')
    return "".join([*parts, "</g>"])


def route_label(drawn: Route) -> str:
    """What is sent; above all else, and on a ground of its own, because other routes may pass."""
    found = drawn.label
    return lines_of(found.lines, found.x, found.y, SMALL_LINE, f'class="said" font-size="{SMALL}"') if found.lines else ""


def distance(one: Point, other: Point) -> float:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])  # routes turn at right angles only


def unit(start: Point, end: Point) -> Point:
    """The direction from one point of a route to the next."""
    far = distance(start, end) or 1.0
    return (end[0] - start[0]) / far, (end[1] - start[1]) / far


# --------------------------------------------------------------------------- legend


def legend_of(graph: Graph, most: float) -> list[str]:
    """What the colours, outlines and lines in the picture mean, in lines that are at most so wide."""
    shapes = {node.shape for node in graph.nodes}
    shown = [(rect(name, 0, -10, 18, 12, 3), f"in the {name}" if name != "actor" else "in actors") for name in WHERE
             if any(node.where == name for node in graph.nodes)]  # fmt: skip
    if any(node.stacked for node in graph.nodes):
        shown.append((rect("actor", 4, -12, 14, 9, 2) + rect("actor", 0, -9, 14, 9, 2), "one per actor"))
    if "actors" in shapes:
        shown.append((cylinder("driver", 2, -12, 14, 15, 2.5), "actors and objects"))
    if "input" in shapes:
        shown.append((dashed("driver", 0, -10, 18, 12), "is given"))
    shown += [(sample(kind), text) for kind, text in LINES.items() if any(edge.kind == kind for edge in graph.edges)]
    lines, x = [""], 0.0
    for picture, text in shown:
        room = 32 + width([text], SMALL) + 20
        if x and x + room - 20 > most:
            lines.append("")
            x = 0.0
        words = f'<text class="soft" x="32" y="0" font-size="{SMALL}">{escape(text)}</text>'
        lines[-1] += f'<g transform="translate({x:.1f} 0)">{picture}{words}</g>'
        x += room
    return lines


def sample(kind: str) -> str:
    """A short piece of a line."""
    bar = f'<path class="{kind}" stroke-width="3" d="M15 -10L15 2"/>' if kind == "barrier" else ""
    head = f'<polygon class="{kind}-head" points="26 -4 18 -8 18 0"/>' if kind != "use" else ""
    return f'<path class="{kind}" d="M0 -4L{18 if head else 26} -4"{STROKES.get(kind, USUAL_STROKE)}/>{bar}{head}'
