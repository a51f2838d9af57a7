"""Charts: every value where it belongs, every text inside the picture, whatever the numbers are."""

from __future__ import annotations

import itertools
import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflow.drawing.chart import MOST_POINTS, Chart, Series, bounds, chart_svg, framed, labels, short, thinned, ticks
from tflow.drawing.wrapping import width

numbers = st.floats(-1e12, 1e12, allow_nan=False) | st.integers(-3, 3).map(float) | st.floats(-1e-9, 1e-9)
points = st.lists(st.tuples(st.floats(0, 1e9), numbers), max_size=30).map(lambda found: tuple(sorted(found)))
SIZES = [(520.0, 300.0), (360.0, 260.0), (300.0, 190.0)]
HOSTILE = 'a<b> & "c" \' ]]> </svg><script>alert(1)</script> é'


def texts(root: ET.Element) -> Iterator[tuple[str, float, float, float, float]]:
    """The texts of a chart, each with from where to where it is, its base line and its size."""
    for each in root.iter("text"):
        size, text = float(each.attrib["font-size"]), each.text or ""
        wide, x = width([text], size), float(each.attrib["x"])
        start = {"middle": x - wide / 2, "end": x - wide}.get(each.attrib.get("text-anchor", ""), x)
        yield text, start, start + wide, float(each.attrib["y"]), size


@given(curves=st.lists(points, min_size=1, max_size=4), name=st.text(max_size=80), size=st.sampled_from(SIZES))
def test_nothing_leaves_the_picture(curves: list[tuple[tuple[float, float], ...]], name: str, size: tuple[float, float]) -> None:
    name = "".join(letter for letter in name if letter.isprintable())
    chart = Chart(name, "env steps", tuple(Series(f"{name}{hue}", curve, hue, dots=True) for hue, curve in enumerate(curves)))
    root = ET.fromstring(chart_svg(chart, *size))
    for text, left, right, base, letters in texts(root):
        assert left >= -0.5, text
        assert right <= size[0] + 0.5, text
        assert letters * 0.8 <= base <= size[1]
    for path in root.iter("path"):
        if "M" in path.attrib["d"] and "L" in path.attrib["d"]:
            for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.attrib["d"]):
                assert -0.1 <= float(x) <= size[0] + 0.1
                assert -0.1 <= float(y) <= size[1] + 0.1
    for one, other in itertools.combinations(list(texts(root)), 2):
        if one[3] == other[3] and one[0] and other[0]:
            assert one[2] <= other[1] + 1 or other[2] <= one[1] + 1, "numbers beside each other are apart"


@given(low=st.floats(-1e9, 1e9), wide=st.floats(1e-3, 1e9), most=st.integers(2, 8))
def test_ticks_are_round_and_few(low: float, wide: float, most: int) -> None:
    found = ticks(*bounds([low, low + wide]), most)
    assert 2 <= len(found) <= most + 3
    assert found == sorted(set(found))
    assert len(set(labels(found))) == len(found), "each has a label of its own"


def test_a_value_is_where_its_tick_is() -> None:
    chart = Chart("", "x", (Series("a", ((0.0, 0.0), (50.0, 20.0), (100.0, 100.0))),))
    x_ticks, _, frame = framed(chart, 400, 240)
    assert (x_ticks[0], x_ticks[-1]) == (0, 100)
    assert frame.at(0, frame.y[0]) == pytest.approx((frame.left, frame.bottom))
    assert frame.at(100, frame.y[1]) == pytest.approx((frame.right, frame.top))
    drawn = chart_svg(chart, 400, 240)
    (path,) = re.findall(r'c-line" d="M([^"]+)"', drawn)
    assert [tuple(map(float, each.split())) for each in path.split("L")] == [
        pytest.approx(frame.at(x, y), abs=0.051) for x, y in chart.series[0].points
    ]
    data = json.loads(ET.fromstring(drawn).attrib["data-chart"])
    assert data["s"][0]["p"] == [[0, 0], [50, 20], [100, 100]]


@pytest.mark.parametrize("values", [(), ((1.0, 1.0),), ((0.0, 5.0), (9.0, 5.0)), ((0.0, 0.0), (0.0, 0.0))])
def test_few_or_equal_values_are_drawn(values: tuple[tuple[float, float], ...]) -> None:
    chart = Chart("few", "x", (Series("a", values),))
    root = ET.fromstring(chart_svg(chart))
    assert chart.empty == (not values)
    assert len(list(root.iter("circle"))) == (1 if len(values) == 1 else 0)


def test_bands_stand_behind_lines_and_seeds_are_not_told_by_the_pointer() -> None:
    band = tuple((float(x), x - 1.0, x + 1.0) for x in range(5))
    line = tuple((float(x), float(x)) for x in range(5))
    drawn = chart_svg(Chart("", "x", (Series("mean", line, 0, band), Series("seed 1", line, 0, faint=True))))
    assert drawn.index("c-faint") < drawn.index("c-band") < drawn.index("c-line")
    data = json.loads(ET.fromstring(drawn).attrib["data-chart"])
    assert [each["n"] for each in data["s"]] == ["mean"]


def test_names_are_text_and_nothing_else() -> None:
    root = ET.fromstring(chart_svg(Chart(HOSTILE, HOSTILE, (Series(HOSTILE, ((0.0, 1.0), (1.0, 2.0))),), 1.5, HOSTILE)))
    assert not list(root.iter("script"))
    assert HOSTILE in root.attrib["aria-label"]


@given(value=st.floats(-1e14, 1e14))
def test_numbers_are_short_and_close(value: float) -> None:
    text = short(value)
    assert len(text) <= 10
    factor = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1.0)
    assert float(text.rstrip("kMG")) * factor == pytest.approx(value, rel=6e-3, abs=1e-300)


@given(count=st.integers(0, 3_000))
def test_thinning_keeps_both_ends(count: int) -> None:
    values = [(float(place), 0.0) for place in range(count)]
    found = thinned(values)
    assert len(found) <= MOST_POINTS + 1
    assert found[:1] == values[:1]
    assert found[-1:] == values[-1:]


@given(values=st.lists(numbers, max_size=5))
def test_there_is_always_room(values: list[float]) -> None:
    low, high = bounds(values)
    assert low < high
    assert all(map(math.isfinite, (low, high)))
    assert all(low <= value <= high for value in values)
