"""Random plans of general streams, right ones and such with one mistake.

A stream is kept with all that decides what may come next; so right stages are chosen among those that fit, and mistakes among
those that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.types.agreement.drafts import Draft, Step


@dataclass(frozen=True)
class Stream:
    """A value of a draft, as its writer knows it."""

    name: str
    element: str
    """As it is written in annotations."""
    parallel: bool = False
    sync: bool = True
    host: str = "object"
    """The class of the actors, of a parallel stream."""
    known: bool = True
    """Its element type is known at run time, too: no lambda has hidden it."""
    shards: int = 2
    fed: bool = False
    """The driver feeds its shards."""
    gated: bool = False
    """Something limits how often its actors are asked."""
    counted: bool = False
    """Items of actors arrive before it."""
    actors: str = ""
    """Where its shards begin."""

    @property
    def type(self) -> str:
        offered = "Sync" if self.sync else "Async"
        return f"ParIter[{self.element}, {offered}, {self.host}]" if self.parallel else f"Iter[{self.element}, {offered}]"


MAPS = {
    "int": [("double", "int"), ("show", "str"), ("upto", "list[int]"), ("same", "int"), ("str", "str"), ("abs", "int")],
    "str": [("length", "int"), ("louder", "str"), ("letters", "list[str]"), ("same", "str"), ("len", "int")],
    "list[int]": [("len", "int"), ("sum", "int"), ("same", "list[int]")],
    "list[str]": [("len", "int"), ('" ".join', "str")],
}
UNKNOWN_RESULT = {"abs", "len", "sum", '" ".join'}
"""Functions that say nothing of their results at run time."""
LAMBDAS = {
    "int": ("lambda x: x + 1", "int"),
    "str": ('lambda word: word + "!"', "str"),
    "list[int]": ("lambda many: many[:2]", "list[int]"),
}
OPERATORS = {
    "int": [("Double()", "int"), ("Show()", "str"), ("Total()", "int"), ("Total(start=3)", "int"), ("Count()", "int")],
    "str": [("Louder()", "str"), ("Length()", "int"), ("Count()", "int")],
    "list[int]": [("First[int]()", "int"), ("Count()", "int")],
    "list[str]": [("First[str]()", "str")],
}
TESTS = {"int": ["is_even", "bool", "lambda x: x > 2"], "str": ["is_short", "str.isalpha", "bool"]}
FOLDS = {"int": ("add", "0", "int"), "str": ("join", '""', "str")}
SPREADS = {"int": ("upto", "int"), "str": ("letters", "str")}
ITEMS = {
    "int": ["[1, 2, 3]", "(4, 5)", "range(4)", "[number * 2 for number in range(3)]"],
    "str": ['["a", "b"]', '("x", "yz")', "WORDS"],
}


class Writer:
    """Writes one plan."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.steps: list[Step] = []
        self.open: list[Stream] = []
        """Streams that nothing consumes yet."""
        self.mistake = ""
        self.count = 0

    # ------------------------------------------------------------------- words

    def pick(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def fresh(self, prefix: str = "s") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def value(self, code: str, prefix: str = "value", uses: tuple[str, ...] = ()) -> str:
        """A name for something that is no stream."""
        name = self.fresh(prefix)
        self.steps.append(Step((name,), code, uses=uses, fixed=True))
        return name

    def number(self, number: float) -> str:
        """A number in one of the ways that people write it."""
        way = self.random.random()
        if way < 0.7 or not isinstance(number, int):
            return repr(number)
        if way < 0.85:
            return f"{number + 2} - 2"
        return self.value(repr(number), "size")

    def add(self, stream: Stream, code: str, inputs: Sequence[Stream], *, other: str = "", block: str = "") -> Stream:
        """A step that makes a stream; what it consumes is no longer open."""
        named = [step.names[0] for step in self.steps if step.fixed and step.names[0] in f"{code} {other} {block}"]
        types = (stream.type,)
        self.steps.append(Step((stream.name,), code, tuple(each.name for each in inputs), types, other, block, uses=tuple(named)))
        self.open = [each for each in self.open if each not in inputs] + [stream]
        return stream

    def then(self, stream: Stream, code: str, *, other: str = "", block: str = "", **changed: object) -> Stream:
        """The next stage of one stream."""
        made = replace(stream, name=self.fresh(), **changed)  # type: ignore[arg-type]  # fields by name
        return self.add(made, "{0}" + code, [stream], other="{0}" + other if other else "", block=block)

    # ------------------------------------------------------------------- sources

    def source(self, *, parallel: bool | None = None, element: str = "") -> Stream:
        element = element or self.pick(["int", "int", "str"])
        if parallel is None:
            parallel = self.random.random() < 0.5
        if not parallel:
            code = f"from_items({self.pick(ITEMS[element])})"
            if element == "int":
                code = self.pick([code, f"from_range({self.number(self.random.randint(1, 9))})", "from_iterable(count)"])
            known = "count" not in code and "WORDS" not in code
            return self.add(Stream(self.fresh(), element, known=known), code, [])
        if self.random.random() < 0.5:
            cls = self.pick(["Worker", "Worker", "Teacher", "LongWorker"])
            shards = self.random.randint(1, 3)
            pool = self.value(f"create_actors({cls}, num={shards})", "pool")
            pull = f"{cls}.{'number' if element == 'int' else 'word'}"
            stream = Stream(self.fresh(), element, parallel=True, host=cls, shards=shards, actors=pool)
            return self.add(stream, f"from_actors({pool}, {pull})", [])
        shards = self.random.randint(1, 3)
        name = self.fresh()
        code = f"par_from_items({self.pick(ITEMS[element])}, shards={self.number(shards)})"
        if element == "int" and self.random.random() < 0.3:
            code = f"par_from_range(8, shards={self.number(shards)})"
        known = "WORDS" not in code
        return self.add(Stream(name, element, parallel=True, shards=shards, actors=name, known=known), code, [])

    # ------------------------------------------------------------------- right stages

    def stage(self, stream: Stream) -> Stream:
        """A stage that fits."""
        return self.par_stage(stream) if stream.parallel else self.driver_stage(stream)

    def element_stages(self, stream: Stream) -> list[Callable[[], Stream]]:
        """Stages that exist in both places."""
        par = "par_" if stream.parallel else ""
        element, choices = stream.element, list[Callable[[], Stream]]()
        if element in MAPS:
            fn, result = self.random.choice(MAPS[element])
            same = [name for name, other in MAPS[element] if other == result and name not in UNKNOWN_RESULT]
            known = fn not in UNKNOWN_RESULT and (stream.known or fn != "same")
            choices.append(
                lambda: self.then(
                    stream, f".{par}map({fn})", other=f".{par}map({same[-1]})" if same else "", element=result, known=known
                )
            )
        if element in OPERATORS:
            op, made = self.random.choice(OPERATORS[element])
            choices.append(
                lambda: self.then(stream, f".{par}for_each({op})", element=made, known=stream.known or "First" not in op)
            )
        if element in LAMBDAS:
            text, _ = LAMBDAS[element]
            choices.append(lambda: self.then(stream, f".{par}map({text})", known=False))
        if element in TESTS and not stream.gated:
            test = self.pick(TESTS[element])
            choices.append(lambda: self.then(stream, f".{par}filter({test})", other=f".{par}tap(print)"))
        if element in FOLDS:
            fold, start, _ = FOLDS[element]
            choices.append(lambda: self.then(stream, f".{par}scan({fold}, {start})", known=True))
        choices.append(lambda: self.then(stream, f".{par}tap(print)", other=f".{par}take(3)"))
        choices.append(lambda: self.then(stream, f'.named("{self.pick(["here", "there"])}")'))
        choices.append(lambda: self.then(stream, f".{par}take({self.number(self.random.randint(0, 9))})"))
        return choices

    def driver_stage(self, stream: Stream) -> Stream:
        element = stream.element
        choices = self.element_stages(stream)
        choices.append(lambda: self.then(stream, f".every(items={self.number(2)})", other=".tap(print)"))
        choices.append(lambda: self.then(stream, ".every(seconds=0.5)"))
        choices.append(
            lambda: self.then(stream, f".shuffle({self.number(4)})", other=f".shuffle(3, seed={self.number(1)})", sync=False)
        )
        if stream.counted:
            choices.append(lambda: self.then(stream, ".every(steps=100)"))
        if element in ("int", "str"):
            fn, result = SPREADS[element]
            choices.append(lambda: self.then(stream, f".flat_map({fn})", element=result, known=True))
            size = self.number(self.random.randint(1, 4))
            choices.append(lambda: self.then(stream, f".batch({size})", element=f"list[{element}]"))
            choices.append(lambda: self.called(stream))
        if element in ("list[int]", "list[str]"):
            choices.append(lambda: self.then(stream, ".flatten()", element=element[5:-1]))
        if element == "int":
            choices.append(lambda: self.then(stream, f".for_each({self.pick(['OnDriver()', 'Notes()'])})", known=True))
            choices.append(lambda: self.then(stream, ".for_each(Passes())"))
        if element in ("int", "str") and stream.sync:
            fresh = "FreshNumber()" if element == "int" else "FreshWord()"
            choices.append(lambda: self.then(stream, f".for_each({fresh})", known=True))
        choices.append(lambda: self.looped(stream))
        choices.append(lambda: self.branched(stream))
        return self.random.choice(choices)()

    def called(self, stream: Stream) -> Stream:
        """Through an actor."""
        actor = self.value("create_actor(Teacher)", "teacher")
        op, made = ("Teach()", "str") if stream.element == "int" else ("Grade()", "int")
        if self.random.random() < 0.3:
            op, made = self.random.choice(OPERATORS[stream.element])
        if self.random.random() < 0.5:
            return self.then(stream, f".call({actor}, {op})", element=made, known=True)
        options = self.pick(["", ", mailbox=4", ', on_full="drop_oldest"', ', on_death="skip"', ", timeout_s=2.5"])
        return self.then(stream, f".hand_off({actor}, {op}{options})", element=made, known=True, sync=False)

    def same_kind(self, stream: Stream) -> str:
        """A stage that keeps the element, as code."""
        kept = {"int": [".map(double)", ".for_each(Double())"], "str": [".map(louder)", ".for_each(Louder())"]}
        return self.pick([".tap(print)", ".take(5)", *kept.get(stream.element, [])])

    def looped(self, stream: Stream) -> Stream:
        """Branches in a loop, united again."""
        number, each = self.random.randint(1, 4), self.same_kind(stream)
        name = self.fresh()
        found = f"found{name}"
        block = (
            f"{found}: list[Iter[{stream.element}]] = []\nfor branch in {{0}}.split({number}):\n"
            f"    {found}.append(branch{each})\n{{out}} = Union(*{found})"
        )
        code = f"Union(*[branch{each} for branch in {{0}}.split({number})])"
        return self.add(replace(stream, name=name, sync=False), code, [stream], block=block)

    def branched(self, stream: Stream) -> Stream:
        """Split; the branches stay open, one of them comes back."""
        number = self.random.randint(2, 3)
        branches = [replace(stream, name=self.fresh("b"), counted=stream.counted or stream.parallel) for _ in range(number)]
        lag = self.pick(["", "", f"max_lag={self.number(2)}"])
        if lag:
            branches = [replace(each, sync=False) for each in branches]
        branches = [replace(each, parallel=False, host="object") for each in branches]
        arguments = ", ".join(filter(None, [str(number) if number != 2 else "", lag]))
        self.split(stream, f".split({arguments})", branches)
        return branches[0]

    def split(self, stream: Stream, code: str, branches: list[Stream]) -> None:
        names, types = tuple(each.name for each in branches), tuple(each.type for each in branches)
        self.steps.append(Step(names, "{0}" + code, (stream.name,), types))
        self.open = [each for each in self.open if each is not stream] + branches

    def par_stage(self, stream: Stream) -> Stream:
        element = stream.element
        choices = [] if stream.gated else self.element_stages(stream)
        if not stream.gated:
            if element in ("int", "str"):
                fn, result = SPREADS[element]
                choices.append(lambda: self.then(stream, f".par_flat_map({fn})", element=result, known=True, sync=False))
                choices.append(lambda: self.then(stream, f".par_batch({self.number(2)})", element=f"list[{element}]"))
            if element in ("list[int]", "list[str]"):
                choices.append(lambda: self.then(stream, ".par_flatten()", element=element[5:-1], sync=False))
            choices.append(lambda: self.then(stream, ".par_shuffle(4, seed=1)", sync=False))
        if element == "int" and stream.host in ("Worker", "LongWorker"):
            choices.append(lambda: self.then(stream, ".par_for_each(BesideWorker())", known=True))
        if element == "int" and stream.host == "Teacher":
            choices.append(lambda: self.then(stream, ".par_for_each(Teach())", element="str", known=True))
        if stream.shards > 1 and not stream.fed:
            choices.append(lambda: self.then(stream, ".select_shards(0)", shards=1, actors=self.fresh("part")))
        if not stream.fed:
            choices.append(lambda: self.dealt(stream))
        choices += [lambda: self.gathered(stream)] * 3
        choices.append(lambda: self.branched(stream))
        return self.random.choice(choices)()

    def dealt(self, stream: Stream) -> Stream:
        shards, name = self.random.randint(1, 3), self.fresh("part")
        code = f".repartition({self.number(shards)})"
        return self.then(stream, code, shards=shards, sync=False, host="object", fed=True, actors=name, counted=True)

    def gathered(self, stream: Stream) -> Stream:
        element = stream.element
        way = self.pick(["sync", "sync", "rounds", "async"])
        options = self.pick(["", "", 'on_death="skip"', "timeout_s=1.5"])
        if way == "rounds" and element in ("int", "str"):
            return self.then(
                stream, f".gather_rounds({options})", element=f"list[{element}]", parallel=False, host="object", counted=True
            )
        if way == "async":
            inside = ["", "in_flight=2", options]
            if not stream.fed:
                inside += [f"per_call={self.number(2)}", "max_staleness=3", "in_flight=2, per_call=TimeBudget()"]
            code = f".gather_async({self.pick(inside)})"
            return self.then(stream, code, parallel=False, sync=False, host="object", counted=True)
        return self.then(stream, f".gather_sync({options})", parallel=False, host="object", counted=True)

    # ------------------------------------------------------------------- the whole

    def on_driver(self, stream: Stream) -> Stream:
        return self.gathered(stream) if stream.parallel else stream

    def united(self) -> Stream:
        """All open streams as one."""
        inputs = [self.on_driver(each) for each in list(self.open)]
        if len(inputs) == 1:
            return inputs[0]
        if len(inputs) == 2 and self.random.random() < 0.2:
            first, second = inputs
            element = f"tuple[{first.element}, {second.element}]"
            return self.add(replace(first, name=self.fresh(), element=element, sync=False), "{0}.zip({1})", inputs)
        if self.random.random() < 0.2:
            inputs[-1] = self.then(inputs[-1], ".drain()", element="Never")
        return self.union(inputs)

    def union(self, inputs: list[Stream], options: str = "") -> Stream:
        elements = list(dict.fromkeys(each.element for each in inputs))
        weights = ", ".join(str(self.random.randint(1, 3)) for _ in inputs)
        options = options or self.pick(["", "", f", weights=[{weights}]", ', mode="async"', ', mode="round_robin"'])
        places = ", ".join(f"{{{index}}}" for index in range(len(inputs)))
        made = Stream(self.fresh(), " | ".join(elements), sync=False, known=False, counted=any(each.counted for each in inputs))
        listed = f"parts{made.name}"
        block = f"{listed} = [{places}]\n{{out}} = Union(*{listed}{options})"
        alike = len({each.type for each in inputs}) == 1
        return self.add(made, f"Union({places}{options})", inputs, block=block if alike else "")

    def plan(self, *, wrong: bool) -> Draft:
        from tests.types.agreement.mistakes import DIRECT, MISTAKES

        for _ in range(self.random.choice([1, 1, 2, 2, 3])):
            self.source()
        stages = self.random.randint(2, 8)
        when = self.random.randrange(stages) if wrong else -1
        first = self.seed // 4 % len(MISTAKES)  # each in its turn, or the next that can be made here
        names = [*MISTAKES][first:] + [*MISTAKES][:first]
        for index in range(stages):
            if index == when:
                self.mistake = next(
                    name
                    for name in names
                    if any(MISTAKES[name](self, each) for each in self.random.sample(self.open, len(self.open)))
                )
            if self.open:
                self.stage(self.random.choice(self.open))
        self.united()
        mark = self.pick(["", "", "@flow"])
        return Draft(
            tuple(self.steps), mark=mark, seed=self.random.randrange(1 << 30), mistake=self.mistake, direct=self.mistake in DIRECT
        )
