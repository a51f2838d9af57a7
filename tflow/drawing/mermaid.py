"""A drawing as a mermaid flowchart, which GitHub and many editors show."""

from __future__ import annotations

import json

from tflow.drawing.model import WHERE, DrawnEdge, DrawnNode, Flow, Graph, Relation
from tflow.drawing.svg import LIGHT

ESCAPES = {character: f"#{ord(character)};" for character in '"#<>|&`*\\'} | {
    '"': "#quot;",
    "<": "#lt;",
    ">": "#gt;",
    "&": "#amp;",
}
"""What would end a label, or be taken for markup in it. Brackets need no escape between quotes."""
SHAPES = {"operator": ("(", ")"), "stacked": ("[[", "]]"), "input": ("([", "])"), "actors": ("[(", ")]")}
ARROWS: dict[Flow | Relation, str] = {"sync": "-->", "async": "-->", "barrier": "==>", "message": "-.->", "use": "---"}


def mermaid(graph: Graph, *, down: bool = False) -> str:
    """The drawing as text that mermaid understands: nodes coloured by where they run, types on the edges. What there is once per
    actor has double sides; barriers are thick, messages dotted, and both messages and asynchronous edges have a colour."""
    parts = ["---", f"title: {json.dumps(graph.title)}", "---", f"flowchart {'TD' if down else 'LR'}"]
    parts += [f"  n{node.id}{shaped(node)}" for node in graph.nodes]
    parts += [f"  n{edge.source} {arrow(edge)} n{edge.target}" for edge in graph.edges]
    for name in WHERE:
        members = [f"n{node.id}" for node in graph.nodes if node.where == name]
        if members:
            fill, stroke, ink = LIGHT[name]
            parts += [f"  classDef {name} fill:{fill},stroke:{stroke},color:{ink}", f"  class {','.join(members)} {name}"]
    late = [str(index) for index, edge in enumerate(graph.edges) if edge.kind in ("async", "message")]
    if late:
        parts.append(f"  linkStyle {','.join(late)} stroke:{LIGHT['late'][0]}")
    return "\n".join(parts) + "\n"


def shaped(node: DrawnNode) -> str:
    opening, closing = SHAPES["stacked" if node.stacked and node.shape == "operator" else node.shape]
    return f"{opening}{quoted(node.label)}{closing}"


def arrow(edge: DrawnEdge) -> str:
    return f"{ARROWS[edge.kind]}|{quoted(edge.shown)}|" if edge.shown else ARROWS[edge.kind]


def quoted(text: str) -> str:
    """A label between quotes."""
    return f'"{"".join(ESCAPES.get(character, character) for character in text)}"'
