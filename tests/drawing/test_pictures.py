"""Drawings as pictures: nothing is left out, nothing lies on anything else, and any text survives."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cache
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflow.algos.names import ALGORITHMS
from tflow.drawing.built import of_plan
from tflow.drawing.columns import Piece, crossings, order, settle, tie
from tflow.drawing.layout import layout
from tflow.drawing.mermaid import mermaid
from tflow.drawing.model import WHERE, DrawnEdge, DrawnNode, Flow, Graph, Relation
from tflow.drawing.placed import SMALL, SMALL_LINE, Box, Layout
from tflow.drawing.svg import svg
from tflow.drawing.wrapping import width, wrapped

NS = "{http://www.w3.org/2000/svg}"
HOSTILE = 'a<b> & "c" | [x] {y} `z` #1; <!-- ]]> \\ * é'
Rect = tuple[float, float, float, float]
DOWN = pytest.mark.parametrize("down", [False, True], ids=["right", "down"])


@cache
def algorithm(name: str) -> Graph:
    return of_plan(ALGORITHMS[name]().plan(), name)


def rect(box: Box) -> Rect:
    return box.x, box.y, box.x + box.width, box.y + box.height


def label_rects(placed: Layout) -> Iterator[Rect]:
    """Where the texts on wires are."""
    for each in placed.wires:
        label, wide = each.label, width(list(each.label.lines), SMALL)
        high = len(label.lines) * SMALL_LINE
        if placed.down:
            yield label.x + 8, label.y - high / 2, label.x + 8 + wide, label.y + high / 2
        else:
            yield label.x - wide / 2, label.y - high, label.x + wide / 2, label.y


def said_rects(placed: Layout) -> Iterator[Rect]:
    """Where the texts of messages are."""
    for each in placed.routes:
        if each.label.lines:
            yield each.label.x, each.label.y - SMALL * 0.8, each.label.x + width(list(each.label.lines), SMALL), each.label.y


def overlap(one: Rect, other: Rect) -> bool:
    return one[0] < other[2] - 0.01 and other[0] < one[2] - 0.01 and one[1] < other[3] - 0.01 and other[1] < one[3] - 0.01


def check(graph: Graph, down: bool) -> Layout:
    """Boxes and labels apart from each other and inside the picture; wires from box to box; messages around all boxes."""
    placed = layout(graph, down=down)
    boxes = {box.node.id: rect(box) for box in placed.boxes}
    assert boxes.keys() == {node.id for node in graph.nodes}
    things = [*boxes.values(), *label_rects(placed)]
    for one, other in itertools.combinations(things, 2):
        assert not overlap(one, other)
    for (left, top, right, bottom), other in itertools.combinations(boxes.values(), 2):
        assert not overlap((left - 10, top - 10, right + 10, bottom + 10), other), "there is room between boxes"
    for said in said_rects(placed):
        assert not any(overlap(said, box) for box in boxes.values())
    for one, other in itertools.combinations(said_rects(placed), 2):
        assert not overlap(one, other)
    for left, top, right, bottom in (*things, *said_rects(placed)):
        assert left >= -0.01
        assert top >= -0.01
        assert right <= placed.width + 0.01
        assert bottom <= placed.height + 0.01
    check_wires(graph, placed, boxes)
    check_routes(graph, placed, boxes)
    return placed


def check_wires(graph: Graph, placed: Layout, boxes: dict[int, Rect]) -> None:
    assert [each.edge for each in placed.wires] == list(graph.flow)
    for each in placed.wires:
        (_, begin, leaves), (end, _, arrives) = each.runs[0], each.runs[-1]
        source, target = boxes[each.edge.source], boxes[each.edge.target]
        if placed.down:
            source, target = (source[1], source[0], source[3], source[2]), (target[1], target[0], target[3], target[2])
        assert begin == pytest.approx(source[2])
        assert end == pytest.approx(target[0])
        assert source[1] < leaves < source[3]
        assert target[1] < arrives < target[3]
        for before, after in itertools.pairwise(each.runs):
            assert before[1] <= after[0] + 0.01, "a wire never turns back"
            assert abs(before[2] - after[2]) < 0.01 or after[0] - before[1] > 9, "there is room to bend"


def check_routes(graph: Graph, placed: Layout, boxes: dict[int, Rect]) -> None:
    assert [each.edge for each in placed.routes] == list(graph.relations)
    for each in placed.routes:
        for place, end in ((each.points[0], each.edge.source), (each.points[-1], each.edge.target)):
            left, top, right, bottom = boxes[end]
            assert left - 0.01 <= place[0] <= right + 0.01
            assert top - 0.01 <= place[1] <= bottom + 0.01
        for one, other in itertools.pairwise(each.points):
            assert min(abs(one[0] - other[0]), abs(one[1] - other[1])) < 0.01, "all turns are right angles"
            (left, right), (top, bottom) = sorted((one[0], other[0])), sorted((one[1], other[1]))
            part = left - 0.5, top - 0.5, right + 0.5, bottom + 0.5
            for end, (x, y, far_x, far_y) in boxes.items():
                assert not overlap(part, (x + 0.6, y + 0.6, far_x - 0.6, far_y - 0.6)), f"{each.edge} crosses {end}"


@DOWN
@pytest.mark.parametrize("name", ALGORITHMS)
def test_nothing_lies_on_anything_else(name: str, down: bool) -> None:
    check(algorithm(name), down)


FLOWS: list[Flow] = ["sync", "async", "barrier"]
RELATIONS: list[Relation] = ["message", "use"]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph that could be built: edges go forward, and at most three lead from an operator to actors."""
    nodes, edges = [], []
    count = draw(st.integers(1, 12))
    for index in range(count):
        label, stacked = "x" * draw(st.integers(1, 30)), draw(st.booleans())
        nodes.append(DrawnNode(index, label, draw(st.sampled_from(WHERE)), "t", "operator", stacked))
        for source in draw(st.lists(st.integers(0, index - 1), max_size=3)) if index else []:
            shown = draw(st.sampled_from(["int", "list[Rollout+advantages+returns]"]))
            edges.append(DrawnEdge(source, index, shown, draw(st.sampled_from(FLOWS))))
    places = dict.fromkeys(range(count), 3)
    for index in range(count, count + draw(st.integers(0, 4))):
        users = draw(st.lists(st.sampled_from([each for each, left in places.items() if left] or [0]), min_size=1, max_size=4))
        users = [each for each in dict.fromkeys(users) if places[each]]
        if not users:
            break
        nodes.append(
            DrawnNode(index, "y" * draw(st.integers(1, 20)), draw(st.sampled_from(WHERE)), "", "actors", draw(st.booleans()))
        )
        for user in users:
            places[user] -= 1
            kind = draw(st.sampled_from(RELATIONS))
            edges.append(DrawnEdge(user, index, draw(st.sampled_from(["", "weights"])) if kind == "message" else "", kind))
    return Graph("any", tuple(nodes), tuple(edges))


@given(graph=graphs(), down=st.booleans())
def test_any_graph_can_be_laid_out(graph: Graph, down: bool) -> None:
    check(graph, down)


@DOWN
def test_a_chain_is_straight(down: bool) -> None:
    wires = layout(algorithm("a3c"), down=down).wires
    assert len({round(run[2], 6) for wire in wires for run in wire.runs}) == 1


def test_the_order_of_boxes_avoids_crossings() -> None:
    left, right = [Piece(1, 1) for _ in range(4)], [Piece(1, 1) for _ in range(4)]
    for one, other in zip(left, reversed(right), strict=True):
        tie(one, other)
    columns = [list(left), list(right)]
    assert crossings(columns) == 6
    order(columns)
    assert crossings(columns) == 0
    settle(columns, 5)
    places = [[piece.place for piece in column] for column in columns]
    assert places[0] == pytest.approx(places[1])
    assert all(after - before >= 7 for column in places for before, after in itertools.pairwise(column))


@pytest.mark.parametrize("down", [False, True, None], ids=["right", "down", "either"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_svg_has_every_label_type_and_message_and_stands_alone(name: str, down: bool | None) -> None:
    graph = algorithm(name)
    picture = svg(graph, down=down)
    root = ET.fromstring(picture)
    texts = ["".join(each.itertext()).replace(" ", "") for each in root.iter(f"{NS}text")]
    for shown in (graph.title, *(node.label for node in graph.nodes), *(edge.shown for edge in graph.edges if edge.shown)):
        assert shown.replace(" ", "") in texts
    assert set(re.findall(r"https?://[^\"]+", picture)) == {"http://www.w3.org/2000/svg"}, "nothing is fetched"
    assert "prefers-color-scheme: dark" in picture
    used = {name for each in root.iter() for name in each.get("class", "").split()}
    assert used - {"node", "edge"} <= set(re.findall(r"\.([\w-]+)\{", picture))
    for kind in ("sync", "async", "barrier", "message", "use"):
        drawn = [path for path in root.iter(f"{NS}path") if path.get("class") == kind and path.get("stroke-width") != "3"]
        edges = sum(edge.kind == kind for edge in graph.edges)
        assert len(drawn) == (edges + 1 if edges else 0), "each edge, and one in the legend"
    dotted = [path for path in root.iter(f"{NS}path") if path.get("class") == "message"]
    assert all(path.get("stroke-dasharray") for path in dotted)


def test_what_there_is_once_per_actor_is_stacked() -> None:
    graph = algorithm("a3c")
    found = {
        "".join(group.find(f"{NS}text").itertext()): len(group.findall(f"{NS}rect")) + len(group.findall(f"{NS}path"))  # type: ignore[union-attr]  # every box has a label
        for group in ET.fromstring(svg(graph)).iter(f"{NS}g")
        if group.get("class") == "node"
    }
    assert {node.label: 3 if node.stacked else 1 for node in graph.nodes} == found
    assert found["ParallelRollouts(workers)"] == found["workers[2]"] == 3


def test_the_picture_is_as_large_as_what_is_in_it() -> None:
    for down in (False, True):
        graph = algorithm("ppo_dqn")
        root = ET.fromstring(svg(graph, down=down))
        _, _, wide, high = map(float, root.get("viewBox", "").split())
        assert (root.get("width"), root.get("height")) == (f"{wide:.0f}", f"{high:.0f}")
        placed = layout(graph, down=down)
        moved = next(each for each in root.iter(f"{NS}g") if each.get("transform"))
        x, y = map(float, re.findall(r"[\d.]+", moved.get("transform", "")))
        assert x + placed.width < wide
        assert y + placed.height < high - 40, "the legend is below"


def test_long_plans_go_down_and_short_ones_to_the_right() -> None:
    for name, wider in (("a3c", True), ("ppo_dqn", False)):
        root = ET.fromstring(svg(algorithm(name)))
        assert (float(root.get("width", "0")) > float(root.get("height", "0"))) is wider


def hostile() -> Graph:
    nodes = (DrawnNode(0, HOSTILE, "actor"), DrawnNode(1, HOSTILE, shape="input"), DrawnNode(2, HOSTILE, shape="actors"))
    return Graph(HOSTILE, nodes, (DrawnEdge(0, 1, HOSTILE), DrawnEdge(0, 2, HOSTILE, "message")))


def test_any_text_survives_in_an_svg() -> None:
    texts = ["".join(each.itertext()).replace(" ", "") for each in ET.fromstring(svg(hostile())).iter(f"{NS}text")]
    assert texts.count(HOSTILE.replace(" ", "")) == 6, "title, three boxes, a type and a message"


def test_any_text_survives_in_mermaid() -> None:
    labels = re.findall(r'"([^"]*)"', mermaid(hostile()).split("---\n")[2])
    plain = [unescape(re.sub(r"#(\d+);", r"&#\1;", each).replace("#quot;", "&quot;").replace("#lt;", "&lt;").replace(
        "#gt;", "&gt;").replace("#amp;", "&amp;")) for each in labels]  # fmt: skip
    assert plain == [HOSTILE] * 5
    assert not [label for label in labels if re.search(r"[<>|`*\\&]|#(?!\w+;)", label)]


def test_mermaid_tells_apart_what_the_picture_tells_apart() -> None:
    assert (
        mermaid(algorithm("a3c"), down=True)
        == """\
---
title: "a3c"
---
flowchart TD
  n0[["ParallelRollouts(workers)"]]
  n1[["par_for_each(ComputeGradients)"]]
  n2("gather_async()")
  n3("for_each(ApplyGradients)")
  n4("for_each(CollectMetrics)")
  n5[("workers[2]")]
  n6[("learner (driver)")]
  n0 -->|"Rollout"| n1
  n1 -->|"Gradients"| n2
  n2 -->|"Gradients"| n3
  n3 -->|"TrainStats"| n4
  n0 --- n5
  n3 -.->|"weights"| n5
  n3 --- n6
  classDef actor fill:#ddf4ff,stroke:#54aeff,color:#0a3069
  class n0,n1,n5 actor
  classDef driver fill:#eefbf1,stroke:#4ac26b,color:#0f3d1e
  class n2,n3,n4,n6 driver
  linkStyle 1,2,3,5 stroke:#bf3989
"""
    )
    assert 'n0 ==>|"Rollout"| n1' in mermaid(algorithm("ppo")), "a barrier is thick"


def test_lines_break_where_people_would_break_them() -> None:
    assert wrapped("Iter[list[Rollout+advantages+returns], Sync]", 24) == ["Iter[list[Rollout", "+advantages+returns],", "Sync]"]
    assert wrapped("Iter[int | str, Async]", 16) == ["Iter[int | str,", "Async]"]
    assert wrapped("hand_off(learner, LearnOnBatch)", 22) == ["hand_off(learner,", "LearnOnBatch)"]
    assert wrapped("x" * 30, 10) == ["x" * 30]


@given(st.text("ab([,:+| ", max_size=60), st.integers(1, 30))
def test_wrapping_keeps_every_letter(text: str, most: int) -> None:
    lines = wrapped(text, most)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(len(line) <= most or not re.search(r"[\[(,:|].|.\+|\s", line.strip()) for line in lines)
