"""Chooses the pairs to keep: no answer twice, and parts in the recipe's proportions."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.core.record import Record
from kernelwright.data.pairs.pair import chance
from kernelwright.data.pairs.recipe import PairsRecipe
from kernelwright.data.pairs.shard import read_shard

DUPLICATE, OVER_SHARE = "duplicate", "more than its share"


@dataclass(slots=True)
class ShardSelection:
    """The pairs to keep of all shards, and counts of those left out."""

    kept: set[str] = field(default_factory=set)
    """The ids of the pairs that are kept."""
    tallies: dict[str, Record] = field(default_factory=dict)
    """Part -> programs, answers, and what was dropped of them, by reason."""
    failures: list[Record] = field(default_factory=list)
    """Failures of ours, each with its program's id."""


def select(paths: Iterable[Path], recipe: PairsRecipe) -> ShardSelection:
    """Choose the pairs of some shards. The choice depends on the pairs and the recipe alone.

    Of equal answers to the same program the first is kept.
    """
    selection = ShardSelection()
    ids: dict[str, list[str]] = {part.name: [] for part in recipe.part}
    dropped: dict[str, Counter[str]] = defaultdict(Counter)
    numbers: dict[str, Counter[str]] = defaultdict(Counter)
    seen: set[tuple[str, ...]] = set()
    for path in paths:
        part = path.stem.rpartition("-")[0]
        # The tally alone: ids and digests are enough to choose, and pairs are long.
        tally = read_shard(path, lambda _: False)[1]
        numbers[part].update(programs=tally["programs"], answers=tally["answers"])
        dropped[part].update(tally["dropped"])
        selection.failures += tally["failures"]
        for name, *key in tally["index"]:
            if tuple(key) in seen:
                dropped[part][DUPLICATE] += 1
            else:
                seen.add(tuple(key))
                ids[part].append(name)
    for name, kept in _mixed(ids, recipe).items():
        if left_out := len(ids[name]) - len(kept):
            dropped[name][OVER_SHARE] = left_out
        selection.kept |= kept
        selection.tallies[name] = dict(numbers[name]) | {"dropped": dict(dropped[name])}
    return selection


def _mixed(ids: dict[str, list[str]], recipe: PairsRecipe) -> dict[str, set[str]]:
    """The ids that are kept of each part, chosen by chance so that the recipe's shares hold.

    A part without a share keeps all of its pairs.
    """
    shares = {part.name: part.share for part in recipe.part if part.share}
    # The part with the fewest pairs for its share keeps all of them, and limits the others.
    unit = min((len(ids[name]) / share for name, share in shares.items()), default=0.0)
    kept = {}
    for name, those in ids.items():
        if name in shares:
            by_chance = sorted(those, key=lambda pair: (chance(recipe.seed, "mix", pair), pair))
            those = by_chance[: round(unit * shares[name])]
        kept[name] = set(those)
    return kept
