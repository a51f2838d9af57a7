"""A small parallel plan: documents are counted inside actors, merged on the driver, and reported while it runs.

Run it with ``python examples/word_count.py``; it prints the typed graph, then the result, then what each operator did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tflow import ActorOp, Iter, Shard, create_actors, from_actors

TEXTS = (
    "a stream of rollouts flows from actors to a learner",
    "a plan is a value and a run is a session",
    "actors compute gradients and a learner applies gradients",
    "a law is a sentence that a test can break",
)


class Reader:
    """An actor: any class will do. It holds the texts of its shard and a list of words to leave out."""

    def __init__(self, shard: Shard) -> None:
        self.texts = iter(TEXTS[shard.index :: shard.count])
        self.stop_words = {"a", "is", "and", "of", "to", "the", "that", "can"}

    def read(self) -> str:
        return next(self.texts)


class CountWords(ActorOp[Reader, str, Counter[str]]):
    """Runs beside the reader: only counts travel to the driver."""

    def apply(self, actor: Reader, item: str, /) -> Counter[str]:
        return Counter(word for word in item.split() if word not in actor.stop_words)


@dataclass(frozen=True)
class Report:
    words: int
    most_common: tuple[tuple[str, int], ...]


def add(total: Counter[str], counts: Counter[str]) -> Counter[str]:
    return total + counts


def report(counts: Counter[str]) -> Report:
    return Report(counts.total(), tuple(counts.most_common(3)))


def word_count() -> Iter[Report]:
    readers = create_actors(Reader, num=2, name="readers")
    counts = from_actors(readers, Reader.read).par_for_each(CountWords()).gather_async()
    return counts.scan(add, Counter[str]()).map(report)


def main() -> None:
    plan = word_count()
    print(plan)
    run = plan.run()
    for latest in run:
        print(latest)
    print(run.stats())


if __name__ == "__main__":
    main()
