"""A simulated run as a small sequence diagram: who answers when, who dies, what is shown. As text, and for mermaid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tflow.runtime.sim import Moment, short

DRIVER = "driver"
GONE = ("dies_before", "dies_after", "is ended")


class Row(NamedTuple):
    """One line of a diagram."""

    who: str
    """The actor, or the driver; empty for the passing of time."""
    sign: str
    """``<`` to the driver, ``>`` from it, or what happens on the line itself."""
    label: str


def rows(trace: Sequence[Moment], items: Sequence[object], shown_after: Sequence[int]) -> Iterator[Row]:
    """What there is to draw: all moments, and the items that were shown between them."""
    waiting = list(zip(shown_after, items, strict=True))
    for number, moment in enumerate(trace, 1):
        if moment.what == "answers":
            told = ", ".join(brief(item) for item in moment.items if item is not None)
            sign = ">" if moment.call == "tell" else "<"
            yield Row(moment.place, sign, f"{moment.call} {told}".strip() if told or sign == ">" else f"{moment.call}: nothing")
        else:
            sign = "X" if moment.what in GONE else "+" if moment.what == "starts" else "!"
            told = f"starts again, incarnation {moment.incarnation}" if sign == "+" else moment.sentence
            yield Row(moment.place, sign if moment.place else "", f"{moment.call} {told}".strip())
        while waiting and waiting[0][0] <= number:
            yield Row(DRIVER, "*", f"shows {brief(waiting.pop(0)[1])}")


def brief(value: object) -> str:
    text = short(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def drawn(trace: Sequence[Moment], items: Sequence[object], shown_after: Sequence[int]) -> str:
    """The diagram as text: a column per actor, a line per moment."""
    columns = [DRIVER, *dict.fromkeys(moment.place for moment in trace if moment.place)]
    starts = [0]
    for name in columns:
        starts.append(starts[-1] + len(name) + 3)
    middle = {name: start + len(name) // 2 for name, start in zip(columns, starts, strict=False)}
    alive = set(columns)
    lines = ["   ".join(columns)]
    for who, sign, label in rows(trace, items, shown_after):
        line = [" "] * starts[-1]
        for name in columns:
            line[middle[name]] = "|" if name in alive or (sign == "+" and name == who) else " "
        if sign in ("<", ">"):
            left, right = middle[DRIVER], middle[who]
            line[left + 1 : right] = ["-" if mark == " " else mark for mark in line[left + 1 : right]]
            line[left + 1 if sign == "<" else right - 1] = sign
        elif who:
            line[middle[who]] = sign
        lines.append(f"{''.join(line)}{label}".rstrip())
        alive = alive - {who} if sign == "X" else alive | {who} if sign == "+" else alive
    return "\n".join(lines)


def mermaid(trace: Sequence[Moment], items: Sequence[object], shown_after: Sequence[int]) -> str:
    """The diagram for mermaid, which GitHub and many editors draw."""
    places = list(dict.fromkeys(moment.place for moment in trace if moment.place))
    names = {DRIVER: DRIVER, **{place: f"a{number}" for number, place in enumerate(places)}}
    lines = ["sequenceDiagram", f"    participant {DRIVER}", *(f"    participant {names[place]} as {place}" for place in places)]
    for who, sign, label in rows(trace, items, shown_after):
        told = label.replace("#", "#35;").replace(";", "#59;").replace("#35#59;", "#35;")
        if sign == "<":
            lines.append(f"    {names[who]}->>{DRIVER}: {told}")
        elif sign == ">":
            lines.append(f"    {DRIVER}->>{names[who]}: {told}")
        elif who:
            lines.append(f"    Note over {names[who]}: {told}")
        else:
            lines.append(f"    Note over {','.join([DRIVER, names[places[-1]]] if places else [DRIVER])}: {told}")
    return "\n".join(lines)
