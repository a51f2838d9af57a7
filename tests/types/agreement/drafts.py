"""Plans as data, which can be written in several ways and made smaller.

A draft is a list of steps, each of which makes named values out of others. How a step is written (inline, with a name, in a
helper function, under a condition, in a loop) is chosen when the draft is written, by random numbers of its own: a smaller draft
is written plainly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from textwrap import indent


@dataclass(frozen=True)
class Step:
    """``code`` makes ``names`` out of ``inputs``, which stand in it as ``{0}``, ``{1}``, ..."""

    names: tuple[str, ...]
    code: str
    inputs: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """Of what it makes; a helper function needs them."""
    other: str = ""
    """Code that makes the same type, for a path that is not taken."""
    block: str = ""
    """Another way to write it, in several lines that assign to ``{out}``."""
    uses: tuple[str, ...] = ()
    """Resources that stand in the code by name."""
    fixed: bool = False
    """A resource: always with a name of its own."""

    def filled(self, given: list[str], code: str = "") -> str:
        return (code or self.code).format(*given)


@dataclass(frozen=True)
class Draft:
    """A plan: what its last step makes is returned."""

    steps: tuple[Step, ...]
    returns: str = "Iter[object]"
    mark: str = ""
    seed: int = 0
    """How it is written; -1: plainly."""
    mistake: str = ""
    """What is wrong with it, as its writer believes."""
    direct: bool = False
    """Never with helper functions or conditions: the mistake is about something that no type says, and what comes out of those is
    known by its type alone."""

    # ------------------------------------------------------------------- smaller ones

    def smaller(self) -> Iterator[Draft]:
        """Drafts with one step less, and the same written plainly."""
        if self.seed >= 0:
            yield replace(self, seed=-1)
        if self.mark:
            yield replace(self, mark="")
        last = self.steps[-1]
        kinds = {name: kind for step in self.steps for name, kind in zip(step.names, step.types, strict=False)}
        for name in last.inputs:
            if kinds.get(name, "").startswith("Iter"):
                yield self.ending(name)
        for index, step in enumerate(self.steps[:-1]):
            if len(step.names) == 1 and step.inputs:
                for name in step.inputs:
                    yield self.without(index, name)

    def ending(self, name: str) -> Draft:
        """What comes after a value is left out, and what only that needed."""
        end = next(index for index, step in enumerate(self.steps) if name in step.names)
        steps = self.steps[: end + 1]
        if len(steps[-1].names) > 1:
            steps = (*steps, Step(("ended",), "{0}", (name,), (steps[-1].types or ("",))[:1]))
        return replace(self, steps=steps, returns="Iter[object]", mark="").pruned()

    def without(self, index: int, name: str) -> Draft:
        """One of its inputs in place of a step."""
        (gone,) = self.steps[index].names
        moved = [replace(each, inputs=tuple(name if given == gone else given for given in each.inputs)) for each in self.steps]
        return replace(self, steps=tuple(moved[:index] + moved[index + 1 :])).pruned()

    def pruned(self) -> Draft:
        """Without steps that the last does not need."""
        needed, kept = set(self.steps[-1].names), list[Step]()
        for step in reversed(self.steps):
            if needed & set(step.names):
                kept.append(step)
                needed |= {*step.inputs, *step.uses}
        return replace(self, steps=tuple(reversed(kept)))

    # ------------------------------------------------------------------- as source

    def source(self, name: str) -> str:
        return Written(self, name).text()


@dataclass
class Written:
    """A draft on its way to source."""

    draft: Draft
    name: str
    helpers: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    """How each value is written where it is used."""

    def __post_init__(self) -> None:
        self.random = Random(self.draft.seed)
        self.plain = self.draft.seed < 0
        self.consumers = Counter(name for step in self.draft.steps for name in step.inputs)
        self.types = {name: kind for step in self.draft.steps for name, kind in zip(step.names, step.types, strict=False)}

    def chance(self, share: float) -> bool:
        return not self.plain and self.random.random() < share

    def text(self) -> str:
        *steps, last = self.draft.steps
        for step in steps:
            self.write(step)
        self.finish(last)
        parameters = ", ".join(f"{name}: {given}" for name, given in self.parameters.items())
        head = f"{self.draft.mark}\n" if self.draft.mark else ""
        main = f"{head}def {self.name}({parameters}) -> {self.draft.returns}:\n{indent(chr(10).join(self.body), '    ')}\n"
        return "\n\n".join([*self.helpers, main])

    def finish(self, last: Step) -> None:
        if last.names[1:] or self.chance(0.3):
            self.write(last, named=True)
            self.body.append(f"return {self.known[last.names[0]]}")
        else:
            self.body.append(f"return {last.filled(self.given(last))}")

    def given(self, step: Step) -> list[str]:
        return [self.known[name] for name in step.inputs]

    def write(self, step: Step, *, named: bool = False) -> None:
        """Add a step in some way."""
        (first, *more), given = step.names, self.given(step)
        if more or step.fixed:
            self.known.update({name: name for name in step.names})
            self.body.append(f"{', '.join(step.names)} = {step.filled(given)}")
        elif step.block and self.chance(0.5):
            self.assign(first, step.block.format(*given, out=first))
        elif step.other and not self.draft.direct and self.chance(0.25):
            self.under_condition(step, self.held(step))
        elif self.can_help(step) and self.chance(0.15):
            self.in_helper(step, given)
        elif not named and self.consumers[first] == 1 and self.chance(0.5):
            self.known[first] = step.filled(given)
        else:
            name = self.name_for(step, first)
            self.assign(first, f"{name} = {step.filled(given)}", name)

    def assign(self, value: str, text: str, name: str = "") -> None:
        self.known[value] = name or value
        self.body.append(text)

    def name_for(self, step: Step, first: str) -> str:
        """A name of its own, or that of what it consumes."""
        if step.inputs and self.consumers[step.inputs[0]] == 1 and self.known[step.inputs[0]].isidentifier() and self.chance(0.4):
            return self.known[step.inputs[0]]
        return first

    def held(self, step: Step) -> list[str]:
        """What it consumes, each with a name."""
        held = []
        for number, text in enumerate(self.given(step)):
            if not text.isidentifier():
                self.body.append(f"{step.names[0]}_{number} = {text}")
                text = f"{step.names[0]}_{number}"
            held.append(text)
        return held

    def under_condition(self, step: Step, given: list[str]) -> None:
        (name,) = step.names
        flag, value, test = self.random.choice(
            [
                ("fast", "bool = True", "fast"),
                ("mode", 'str = "new"', 'mode == "new"'),
                ("limit", "int | None = None", "limit is None"),
            ]
        )
        self.parameters[flag] = value
        taken, other = step.filled(given), step.filled(given, step.other)
        if self.chance(0.3):
            self.assign(name, f"{name} = {taken} if {test} else {other}")
        elif self.chance(0.5):
            self.assign(name, f"if {test}:\n    {name} = {taken}\nelse:\n    {name} = {other}")
        else:
            self.assign(name, f"if not ({test}):\n    {name} = {other}\nelse:\n    {name} = {taken}")

    def can_help(self, step: Step) -> bool:
        types = [self.types.get(name) for name in (*step.inputs, *step.names)]
        return (
            not self.draft.direct
            and bool(step.inputs)
            and not step.uses
            and all(types)
            and len(set(step.inputs)) == len(step.inputs)
        )

    def in_helper(self, step: Step, given: list[str]) -> None:
        (first,) = step.names
        helper = f"{self.name}_{first}"
        names = [f"stream{number}" for number in range(len(given))]
        parameters = ", ".join(f"{name}: {self.types[each]}" for name, each in zip(names, step.inputs, strict=True))
        text = f"def {helper}({parameters}) -> {self.types[first]}:\n    return {step.filled(names)}\n"
        if self.chance(0.3):
            self.body.append(text.rstrip())
        else:
            self.helpers.append(text)
        self.assign(first, f"{first} = {helper}({', '.join(given)})")
