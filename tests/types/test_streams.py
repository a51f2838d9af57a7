"""What checkers print for streams is as the documentation says."""

from __future__ import annotations

import pytest

from tests.types import streams


@pytest.mark.types
def test_the_page_shows_what_each_checker_prints() -> None:
    assert streams.table() == streams.written(), "`make pin` writes the table again"


def test_long_lists_are_cut_short() -> None:
    assert streams.cell("a.b.Iter[c.Batch[Literal['x'] | Literal['y'] | Literal['z']]]") == (
        "`Iter[Batch[Literal['x', ...]]]` 55"
    )
    assert streams.cell('Iter[Batch[Literal["x", "y"]]]') == "`Iter[Batch[Literal['x', 'y']]]` 30"
