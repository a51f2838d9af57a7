"""A drawing as a mermaid flowchart, which GitHub and many editors show."""

from __future__ import annotations

import json

from tflow.drawing.model import WHERE, Graph, Group, Kind, Node

ESCAPES = {character: f"#{ord(character)};" for character in '"#<>|&`*\\'} | {
    '"': "#quot;",
    "<": "#lt;",
    ">": "#gt;",
    "&": "#amp;",
}
"""What would end a label, or be taken for markup in it. Brackets need no escape between quotes."""
SHAPES: dict[Kind, tuple[str, str]] = {
    "operator": ("(", ")"),
    "input": ("([", "])"),
    "flow": ("[[", "]]"),
    "choice": ("{", "}"),
    "container": ("[(", ")]"),
    "end": ("((", "))"),
    "unknown": ("[", "]"),
}
COLOURS = {
    "actor": "fill:#ddf4ff,stroke:#54aeff,color:#0a3069",
    "driver": "fill:#eefbf1,stroke:#4ac26b,color:#0f3d1e",
    "learner": "fill:#fff8c5,stroke:#d4a72c,color:#4d2d00",
    "unknown": "fill:#ffebe9,stroke:#ff8182,color:#82071e,stroke-dasharray:5 3",
}


def mermaid(graph: Graph, *, down: bool = False) -> str:
    """The drawing as text that mermaid understands: nodes by where they run, groups as subgraphs, types on the edges."""
    parts = ["---", f"title: {json.dumps(graph.title)}", "---", f"flowchart {'TD' if down else 'LR'}"]
    parts += inside(graph, None, 1)
    for edge in graph.edges:
        text = f"{edge.shown} ({edge.mark})" if edge.mark else edge.shown
        parts.append(f"  n{edge.source} -->|{quoted(text)}| n{edge.target}")
    for name in (*WHERE, "unknown"):
        members = [f"n{node.id}" for node in graph.nodes if kind_of(node) == name]
        if members:
            parts += [f"  classDef {name} {COLOURS[name]}", f"  class {','.join(members)} {name}"]
    return "\n".join(parts) + "\n"


def inside(graph: Graph, group: int | None, depth: int) -> list[str]:
    """The nodes of a group, and the groups in it."""
    indent = "  " * depth
    found = [f"{indent}n{node.id}{shaped(node)}" for node in graph.nodes if node.group == group]
    for child in children(graph, group):
        found.append(f"{indent}subgraph g{child.id}[{quoted(child.title)}]")
        found += inside(graph, child.id, depth + 1)
        found.append(f"{indent}end")
    return found


def children(graph: Graph, group: int | None) -> list[Group]:
    return [each for each in graph.groups if each.parent == group]


def kind_of(node: Node) -> str:
    return "unknown" if node.kind == "unknown" else node.where


def shaped(node: Node) -> str:
    opening, closing = SHAPES[node.kind]
    return f"{opening}{quoted(node.label)}{closing}"


def quoted(text: str) -> str:
    """A label between quotes."""
    return f'"{"".join(ESCAPES.get(character, character) for character in text)}"'
