"""Text in boxes: where it breaks, and how much room it takes in a font whose letters are equally wide."""

from __future__ import annotations

import re

WIDEST = 0.62
"""A letter of a monospaced font, in parts of its size; the usual ones have 0.55 to 0.602."""
BREAKS = re.compile(r"(?<=[\[(,:|])\s*|(?=\+)|\s+")


def wrapped(text: str, most: int) -> list[str]:
    """Lines of at most ``most`` letters, broken behind brackets, commas and colons and before a plus; longer words stay whole,
    and so do breaks.

    >>> wrapped("par_for_each(ComputeGradients)", 20)
    ['par_for_each(', 'ComputeGradients)']
    >>> wrapped("Iter[Rollout, Async]", 24)
    ['Iter[Rollout, Async]']
    """
    if "\n" in text:
        return [line for part in text.split("\n") for line in wrapped(part, most)]
    if len(text) <= most:
        return [text]
    lines: list[str] = []
    start = 0
    words: list[tuple[str, str]] = []  # what stands between the word and the one before it
    for found in BREAKS.finditer(text):
        if found.start() > start:
            words.append((text[start : found.start()], found.group()))
            start = found.end()
    words.append((text[start:], ""))
    line, between = "", ""
    for word, behind in words:
        if line and len(line) + len(between) + len(word) > most:
            lines.append(line)
            line = word
        else:
            line += between + word
        between = behind
    return [*lines, line]


def width(lines: list[str], size: float) -> float:
    """How wide some lines are at most."""
    return max((len(line) for line in lines), default=0) * size * WIDEST
