"""Drawings as pictures: nothing is left out, nothing lies on anything else, and any text survives."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing.conftest import Draw
from tests.drawing.test_static import DRAWN, EXPANDED, SLIDE_PLANS
from tflow import from_range
from tflow.drawing.built import of_plan
from tflow.drawing.columns import Piece, crossings, order, settle, tie
from tflow.drawing.layout import entangled, layout
from tflow.drawing.mermaid import mermaid
from tflow.drawing.model import WHERE, Edge, Graph, Group, Kind, Node
from tflow.drawing.placed import SMALL, SMALL_LINE, Box, Layout
from tflow.drawing.svg import svg
from tflow.drawing.wrapping import width, wrapped

NS = "{http://www.w3.org/2000/svg}"
HOSTILE = 'a<b> & "c" | [x] {y} `z` #1; <!-- ]]> \\ * é'
Rect = tuple[float, float, float, float]
ANY: list[tuple[str, bool, bool]] = [
    *((name, False, False) for name in DRAWN),
    *((name, True, False) for name in EXPANDED),
    *((name, expand, True) for name in SLIDE_PLANS for expand in (False, True)),
]


def rect(box: Box) -> Rect:
    return box.x, box.y, box.x + box.width, box.y + box.height


def label_rects(placed: Layout) -> Iterator[Rect]:
    """Where the texts on wires are."""
    for each in placed.wires:
        label = each.label
        wide = width([*label.lines, *label.mark], SMALL)
        if placed.down:
            half = (len(label.lines) + len(label.mark)) * SMALL_LINE / 2
            yield label.x + 8, label.y - half, label.x + 8 + wide, label.y + half
        else:
            above, below = len(label.lines) * SMALL_LINE, len(label.mark) * SMALL_LINE
            yield label.x - wide / 2, label.y - above, label.x + wide / 2, label.y + below


def overlap(one: Rect, other: Rect) -> bool:
    return one[0] < other[2] - 0.01 and other[0] < one[2] - 0.01 and one[1] < other[3] - 0.01 and other[1] < one[3] - 0.01


def check(graph: Graph, down: bool) -> Layout:
    """Boxes and labels apart from each other and inside the picture; wires from box to box; groups around their nodes."""
    placed = layout(graph, down=down)
    boxes = {box.node.id: rect(box) for box in placed.boxes}
    assert boxes.keys() == {node.id for node in graph.nodes}
    things = [*boxes.values(), *label_rects(placed)]
    for one, other in itertools.combinations(things, 2):
        assert not overlap(one, other)
    for (left, top, right, bottom), other in itertools.combinations(boxes.values(), 2):
        assert not overlap((left - 10, top - 10, right + 10, bottom + 10), other), "there is room between boxes"
    for left, top, right, bottom in things:
        assert left >= -0.01
        assert top >= -0.01
        assert right <= placed.width + 0.01
        assert bottom <= placed.height + 0.01
    assert [each.edge for each in placed.wires] == list(graph.edges)
    for each in placed.wires:
        (_, begin, leaves), (end, _, arrives) = each.runs[0], each.runs[-1]
        source, target = boxes[each.edge.source], boxes[each.edge.target]
        if down:
            source, target = (source[1], source[0], source[3], source[2]), (target[1], target[0], target[3], target[2])
        assert begin == pytest.approx(source[2])
        assert end == pytest.approx(target[0])
        assert source[1] < leaves < source[3]
        assert target[1] < arrives < target[3]
        for before, after in itertools.pairwise(each.runs):
            assert before[1] <= after[0] + 0.01, "a wire never turns back"
            assert abs(before[2] - after[2]) < 0.01 or after[0] - before[1] > 9, "there is room to bend"
    return placed


def check_frames(graph: Graph, placed: Layout) -> None:
    """A frame has all nodes of its group in it, and no other; wires are straight where they cross its border."""
    nodes = {node.id: node for node in graph.nodes}
    for frame in placed.frames:
        around = frame.x, frame.y, frame.x + frame.width, frame.y + frame.height
        members = {number for number, node in nodes.items() if frame.group.id in groups_of(graph, node)}
        for box in placed.boxes:
            left, top, right, bottom = rect(box)
            inside = around[0] < left and around[1] < top and right < around[2] and bottom < around[3]
            assert inside if box.node.id in members else not overlap(rect(box), around)
        first, last = (around[1], around[3]) if placed.down else (around[0], around[2])
        for each in placed.wires:
            if (each.edge.source in members) == (each.edge.target in members):
                continue
            for before, after in itertools.pairwise(each.runs):
                bent = abs(before[2] - after[2]) > 0.01
                assert not (bent and any(before[1] < border < after[0] for border in (first + 1, last - 1)))


@pytest.mark.parametrize("down", [False, True], ids=["right", "down"])
@pytest.mark.parametrize(("name", "expand", "slides"), ANY)
def test_nothing_lies_on_anything_else(draw: Draw, name: str, expand: bool, slides: bool, down: bool) -> None:
    graph = draw(name, expand=expand, slides=slides)
    check_frames(graph, check(graph, down))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph that could be read from a program: edges go forward, groups may be in groups."""
    parents = draw(st.lists(st.none() | st.integers(0, 3), max_size=4))
    groups = [Group(index, f"group {index}", p if p is not None and p < index else None) for index, p in enumerate(parents)]
    count = draw(st.integers(1, 14))
    nodes, edges = [], []
    for index in range(count):
        label = "x" * draw(st.integers(1, 30))
        group = draw(st.sampled_from([None, *range(len(groups))]))
        kind: Kind = draw(st.sampled_from(["operator", "choice", "end", "flow"]))
        nodes.append(Node(index, label, draw(st.sampled_from(WHERE)), "t", kind, None, group))
        for source in draw(st.lists(st.integers(0, index - 1), max_size=3)) if index else []:
            edges.append(Edge(source, index, draw(st.sampled_from(["int", "Iter[list[Rollout+advantages], Sync]"])), draw(MARKS)))
    return Graph("any", tuple(nodes), tuple(edges), tuple(groups))


MARKS = st.sampled_from(["", "*", "if something_quite_long(is, the_case)"])


@given(graph=graphs(), down=st.booleans())
def test_any_graph_can_be_laid_out(graph: Graph, down: bool) -> None:
    placed = check(graph, down)
    check_frames(graph, placed)
    assert {frame.group.id for frame in placed.frames} == {
        group for node in graph.nodes for group in groups_of(graph, node) if group not in entangled(graph)
    }


def groups_of(graph: Graph, node: Node) -> Iterator[int]:
    parents = {group.id: group.parent for group in graph.groups}
    group = node.group
    while group is not None:
        yield group
        group = parents[group]


def test_a_group_that_a_path_leaves_and_enters_again_gets_no_frame() -> None:
    nodes = tuple(Node(index, str(index), group=None if index == 1 else 0) for index in range(3))
    graph = Graph("x", nodes, (Edge(0, 1, "int"), Edge(1, 2, "int")), (Group(0, "torn"),))
    assert entangled(graph) == {0}
    assert check(graph, False).frames == ()


def test_a_chain_is_straight(draw: Draw) -> None:
    for down in (False, True):
        wires = layout(draw("a3c", slides=True), down=down).wires
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
@pytest.mark.parametrize(("name", "expand", "slides"), ANY)
def test_an_svg_has_every_label_and_type_and_stands_alone(
    draw: Draw, name: str, expand: bool, slides: bool, down: bool | None
) -> None:
    graph = draw(name, expand=expand, slides=slides)
    picture = svg(graph, down=down)
    root = ET.fromstring(picture)
    texts = ["".join(each.itertext()).replace(" ", "") for each in root.iter(f"{NS}text")]
    for node in graph.nodes:
        assert node.label.replace(" ", "") in texts
    for edge in graph.edges:
        assert edge.shown.replace(" ", "") in texts
        assert edge.mark.replace(" ", "") in ["", *texts]
    for group in graph.groups:
        assert group.title.replace(" ", "") in texts
    assert graph.title.replace(" ", "") in texts
    assert set(re.findall(r"https?://[^\"]+", picture)) == {"http://www.w3.org/2000/svg"}, "nothing is fetched"
    assert "prefers-color-scheme: dark" in picture
    used = {name for each in root.iter() for name in each.get("class", "").split()}
    assert used - {"node", "edge", "group"} <= set(re.findall(r"\.([\w-]+)\{", picture))


def test_the_picture_is_as_large_as_what_is_in_it(draw: Draw) -> None:
    for down in (False, True):
        graph = draw("several", slides=True, expand=True)
        root = ET.fromstring(svg(graph, down=down))
        _, _, wide, high = map(float, root.get("viewBox", "").split())
        assert (root.get("width"), root.get("height")) == (f"{wide:.0f}", f"{high:.0f}")
        placed = layout(graph, down=down)
        (moved,) = [each for each in root.iter(f"{NS}g") if each.get("transform") and each.find(f"{NS}g") is not None]
        x, y = map(float, re.findall(r"[\d.]+", moved.get("transform", "")))
        assert x + placed.width < wide
        assert y + placed.height < high - 18, "the legend is below"


def test_long_plans_go_down_and_short_ones_to_the_right(draw: Draw) -> None:
    for name, wider in (("a3c", True), ("several", False)):
        root = ET.fromstring(svg(draw(name, slides=True)))
        assert (float(root.get("width", "0")) > float(root.get("height", "0"))) is wider


def hostile() -> Graph:
    nodes = (Node(0, HOSTILE, "actor"), Node(1, HOSTILE, kind="unknown", group=0))
    return Graph(HOSTILE, nodes, (Edge(0, 1, HOSTILE, HOSTILE),), (Group(0, HOSTILE),))


def test_any_text_survives_in_an_svg() -> None:
    texts = ["".join(each.itertext()).replace(" ", "") for each in ET.fromstring(svg(hostile())).iter(f"{NS}text")]
    assert texts.count(HOSTILE.replace(" ", "")) == 6, "title, group, two boxes, a type and a mark"


def test_any_text_survives_in_mermaid() -> None:
    drawn = mermaid(hostile())
    labels = re.findall(r'"([^"]*)"', drawn.split("---\n")[2])
    plain = [unescape(re.sub(r"#(\d+);", r"&#\1;", each).replace("#quot;", "&quot;").replace("#lt;", "&lt;").replace(
        "#gt;", "&gt;").replace("#amp;", "&amp;")) for each in labels]  # fmt: skip
    assert plain == [HOSTILE, HOSTILE, HOSTILE, f"{HOSTILE} ({HOSTILE})"]
    assert not [label for label in labels if re.search(r"[<>|`*\\&]|#(?!\w+;)", label)]


def test_mermaid_has_classes_by_place_and_subgraphs_by_group(draw: Draw) -> None:
    graph = draw("calling", expand=True)
    assert (
        mermaid(graph)
        == """\
---
title: "calling: Iter[int, Async]"
---
flowchart LR
  n0("from_range(9)")
  n1("split(2)")
  n2("branch 0")
  n5("branch 1")
  n9("Union()")
  subgraph g0["halved"]
    n3("map(#lt;lambda#gt;)")
    n4("take(2)")
  end
  subgraph g1["halved"]
    n6("map(#lt;lambda#gt;)")
    n7("take(3)")
  end
  subgraph g2["doubled"]
    n8("map(twice)")
  end
  n0 -->|"Iter[int, Sync]"| n1
  n1 -->|"Iter[int, Sync]"| n2
  n2 -->|"Iter[int, Sync]"| n3
  n3 -->|"Iter[int, Sync]"| n4
  n1 -->|"Iter[int, Sync]"| n5
  n5 -->|"Iter[int, Sync]"| n6
  n6 -->|"Iter[int, Sync]"| n7
  n7 -->|"Iter[int, Sync]"| n8
  n4 -->|"Iter[int, Sync]"| n9
  n8 -->|"Iter[int, Async]"| n9
  classDef driver fill:#eefbf1,stroke:#4ac26b,color:#0f3d1e
  class n0,n1,n2,n3,n4,n5,n6,n7,n8,n9 driver
"""
    )


def test_mermaid_of_a_plan_of_the_slides(draw: Draw) -> None:
    drawn = mermaid(draw("a3c", slides=True), down=True)
    assert (
        drawn
        == """\
---
title: "a3c: Plan[Metrics]"
---
flowchart TD
  n0("ParallelRollouts(workers)")
  n1("par_for_each(ComputeGradients)")
  n2("gather_async()")
  n3("for_each(ApplyGradients)")
  n4("for_each(CollectMetrics)")
  n0 -->|"ParIter[Rollout]"| n1
  n1 -->|"ParIter[Gradients]"| n2
  n2 -->|"Iter[Gradients, Async]"| n3
  n3 -->|"Iter[TrainStats, Async]"| n4
  classDef actor fill:#ddf4ff,stroke:#54aeff,color:#0a3069
  class n0,n1 actor
  classDef driver fill:#eefbf1,stroke:#4ac26b,color:#0f3d1e
  class n2,n3,n4 driver
"""
    )


def test_what_was_built_is_drawn_the_same_way() -> None:
    a, b = from_range(3).split()
    graph = of_plan(a.zip(b.batch(2)), "pairs")
    assert [(edge.source, edge.target, edge.shown) for edge in graph.edges] == [
        (0, 1, "Iter[int, Sync]"),
        (1, 2, "Iter[int, Sync]"),
        (1, 3, "Iter[int, Sync]"),
        (3, 4, "Iter[int, Sync]"),
        (2, 5, "Iter[int, Sync]"),
        (4, 5, "Iter[list[int], Sync]"),
    ]
    check(graph, False)
    assert "pairs" in svg(graph)
    assert 'n1("split(2)")' in mermaid(graph)


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
