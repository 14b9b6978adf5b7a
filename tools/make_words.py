"""Make the table of nouns in `src/andornot/concepts/wordnet/` from WordNet 3.0 and the ids of ImageNet's 1,000 classes.

    apt-get install wordnet-base  # WordNet 3.0
    pip download --no-deps timm && unzip timm-*.whl 'timm/data/_info/imagenet_synsets.txt'
    python tools/make_words.py /usr/share/wordnet timm/data/_info/imagenet_synsets.txt

An id of ImageNet is `n` and the offset of a noun's synset in WordNet 3.0; the order of the classes is theirs.
"""

import argparse
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).parent.parent / "src" / "andornot" / "words" / "wordnet"
# A gloss says which sense is meant; more than that is not needed.
_GLOSS: Final = 70
# Nouns of other meaning than any class: this many of the nearest are named, of at most so many classes each. So many
# steps up the hierarchy and so many senses are looked at, and a rarer sense counts by this factor less.
_NEAREST, _SPECIFIC, _STEPS_UP, _SENSES, _RARER = 3, 40, 3, 3, 0.9
_LIKE: Final = 0.3  # below it two glosses have nothing to do with each other, as far as one can see
# Animals, artefacts, bodies, food, locations, objects, persons, phenomena, plants, substances.
_VISIBLE: Final = frozenset(("05", "06", "08", "13", "15", "17", "18", "19", "20", "27"))
_STOP: Final = frozenset(
    re.findall(
        r"\w+",
        "a an and any are as at be been but by can for from has have having if in into is it its made more not of on "
        "one or other over some someone something that the their them they this to two up use used usually very was "
        "which who with without especially often",
    )
)


@dataclass(frozen=True)
class Synset:
    """A meaning: its nouns, what it is a kind of, what else it has to do with, and its gloss."""

    offset: str
    field: str  # one of WordNet's files: animals, artefacts, food, persons, …
    lemmas: tuple[str, ...]
    parents: tuple[str, ...]
    related: tuple[str, ...]
    definition: str

    @cached_property
    def gloss(self) -> str:
        """The first part of the definition, cut at a word if it is long."""
        first = re.split(r'[;:] |; ?"', re.sub(r"\s*\([^)]*\)", "", self.definition))[0].strip()
        return first if len(first) <= _GLOSS else first[: first.rindex(" ", 0, _GLOSS)] + " …"


def read_synsets(file: Path) -> dict[str, Synset]:
    """All of `data.noun`, by offset. Its lines are described in `man wndb`."""
    found = {}
    for line in _lines(file):
        data, _, definition = line.partition(" | ")
        fields = data.split()
        after = 4 + 2 * int(fields[3], 16)
        pointers = [tuple(fields[at : at + 3]) for at in range(after + 1, after + 1 + 4 * int(fields[after]), 4)]
        nouns = [(symbol, offset) for symbol, offset, kind in pointers if kind == "n"]
        found[fields[0]] = Synset(
            fields[0],
            fields[1],
            tuple(fields[4:after:2]),
            tuple(offset for symbol, offset in nouns if symbol == "@"),
            tuple(offset for symbol, offset in nouns if symbol[0] in "@~#%+"),
            definition.strip(),
        )
    return found


def read_senses(file: Path) -> dict[str, tuple[list[str], int]]:
    """All of `index.noun`: the offsets of a noun's senses, the most frequent first, and how many were met in texts."""
    senses = {}
    for line in _lines(file):
        fields = line.split()
        count = int(fields[2])
        senses[fields[0]] = fields[-count:], int(fields[-count - 1])
    return senses


def read_counts(file: Path) -> dict[tuple[str, int], int]:
    """All nouns of `cntlist.rev`: how often texts have a noun in the sense of this number."""
    lines = (line.split() for line in _lines(file))
    return {(key.partition("%")[0], int(sense)): int(count) for key, sense, count in lines if "%1:" in key}


def kinds_of(synsets: dict[str, Synset]) -> dict[str, int]:
    """How many synsets each one comprises: itself, and all that is a kind of it."""
    children = defaultdict(list)
    for synset in synsets.values():
        for parent in synset.parents:
            children[parent].append(synset.offset)

    @cache
    def below(offset: str) -> frozenset[str]:
        return frozenset((offset,)).union(*map(below, children[offset]))

    return {offset: len(below(offset)) for offset in synsets}


def classes_below(synsets: dict[str, Synset], ids: list[str]) -> dict[str, set[int]]:
    """The classes of each synset that has any: its own, and those of all that is a kind of it."""
    below: dict[str, set[int]] = defaultdict(set)
    for number, offset in enumerate(ids):
        waiting = [offset]
        while waiting:
            synset = waiting.pop()
            below[synset].add(number)
            waiting += synsets[synset].parents
    return dict(below)


def table_lines(
    synsets: dict[str, Synset],
    senses: dict[str, tuple[list[str], int]],
    counts: dict[tuple[str, int], int],
    ids: list[str],
) -> Iterator[str]:
    """A line for each synset with classes: offset, class, parents, kinds, nouns with the number of the sense, gloss.

    After a `*` is how often WordNet's texts have a noun in this sense, if they do.
    """
    kinds = kinds_of(synsets)
    number_of = {offset: number for number, offset in enumerate(ids)}
    for offset in sorted(classes_below(synsets, ids)):
        synset = synsets[offset]
        nouns = []
        for lemma in synset.lemmas:
            sense = senses[lemma.lower()][0].index(offset) + 1
            count = counts.get((lemma.lower(), sense), 0)
            nouns.append(f"{lemma}.{sense}*{count}" if count else f"{lemma}.{sense}")
        number = str(number_of.get(offset, ""))
        yield "\t".join((offset, number, " ".join(synset.parents), str(kinds[offset]), " ".join(nouns), synset.gloss))


def exception_lines(file: Path, known: set[str]) -> Iterator[str]:
    """The irregular forms of nouns in the table that no rule leads to."""
    for line in _lines(file):
        form, *bases = line.split()
        kept = [base for base in bases if base in known]
        if kept and form not in known:
            yield f"{form}\t{' '.join(kept)}"
    # To WordNet this is a noun of its own, a group; of images people say it for several persons.
    yield "people\tperson"


class Likeness:
    """How near in meaning two synsets are: the rare words that their definitions and nouns share."""

    def __init__(self, synsets: dict[str, Synset]) -> None:
        self._synsets = synsets
        words = {offset: Counter(_stems(synset)) for offset, synset in synsets.items()}
        frequency = Counter(word for counts in words.values() for word in counts)
        self._weights = {
            offset: {word: math.log(len(synsets) / frequency[word]) for word in counts}
            for offset, counts in words.items()
        }

    def __call__(self, one: str, other: str) -> float:
        """From 0 to 1; what WordNet itself relates is nearer."""
        a, b = self._weights[one], self._weights[other]
        shared = sum(weight**2 for word, weight in a.items() if word in b)
        cosine = shared / math.sqrt(sum(w**2 for w in a.values()) * sum(w**2 for w in b.values()) or 1)
        kin = self.kin(one)
        far = {offset for relation in kin for offset in self.kin(relation)}
        return cosine + (0.3 if other in kin else 0.1 if other in far else 0)

    def kin(self, offset: str) -> set[str]:
        """What WordNet relates to it: kinds, parts, wholes."""
        return set(self._synsets[offset].related)


def near_lines(
    synsets: dict[str, Synset], senses: dict[str, tuple[list[str], int]], below: dict[str, set[int]]
) -> Iterator[str]:
    """The nouns without classes that WordNet's texts have: the nearest with some, if any is near."""
    likeness = Likeness(synsets)
    known = {lemma.lower() for offset in below for lemma in synsets[offset].lemmas}
    specific = {offset for offset, classes in below.items() if len(classes) <= _SPECIFIC}
    by_word = defaultdict(set)
    for offset in specific:
        for word in _stems(synsets[offset]):
            by_word[word].add(offset)
    for noun, (offsets, met) in sorted(senses.items()):
        if not met or noun in known or not noun.replace("_", "").isalpha():
            continue
        # Of a rarer sense the nearest count less.
        likes: dict[str, float] = defaultdict(float)
        for rank, offset in enumerate(offsets[: min(met, _SENSES)]):
            if synsets[offset].field in _VISIBLE:
                kin = likeness.kin(offset)
                kin |= {far for relation in kin for far in likeness.kin(relation)}
                alike = {o for word in _stems(synsets[offset]) for o in by_word[word]} | (kin & specific)
                for other in alike:
                    if synsets[other].field == synsets[offset].field and (like := likeness(offset, other)) >= _LIKE:
                        likes[other] = max(likes[other], like * _RARER**rank)
                for general in _generalisation(offset, synsets, specific):
                    likes[general] = max(likes[general], _LIKE * _RARER**rank)
        ranked = sorted(likes.items(), key=lambda item: (-item[1], item[0]))
        nearest = [synsets[offset].lemmas[0] for offset, _ in ranked[:_NEAREST]]
        yield f"{noun}\t{' '.join(dict.fromkeys(nearest))}"


def _generalisation(offset: str, synsets: dict[str, Synset], specific: set[str]) -> tuple[str, ...]:
    """The nearest thing, at most a few steps up, that it is a kind of and that is in the table."""
    level = [offset]
    for _ in range(_STEPS_UP):
        level = [parent for synset in level for parent in synsets[synset].parents]
        if found := [parent for parent in level if parent in specific]:
            return (found[0],)
    return ()


def _stems(synset: Synset) -> Iterator[str]:
    definition = synset.definition.partition('; "')[0]
    for word in re.findall(r"[a-z]+", " ".join((definition, *synset.lemmas)).lower().replace("_", " ")):
        if word not in _STOP and len(word) > 2:
            yield word.removesuffix("s")


def _lines(file: Path) -> Iterator[str]:
    """The lines of a file of WordNet without its licence, which is indented."""
    for line in file.read_text(encoding="latin-1").splitlines():
        if line and not line.startswith("  "):
            yield line


def _write(name: str, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    (TABLE / name).write_text(text, encoding="utf-8")
    print(f"{name}: {text.count(chr(10)):,} lines, {len(text.encode()):,} bytes")


def main() -> None:
    """Reads the two sources and writes the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "wordnet", type=Path, help="folder of WordNet 3.0 with data.noun, index.noun, noun.exc and cntlist.rev"
    )
    parser.add_argument("ids", type=Path, help="file with the ids of the 1,000 classes, a line each, in their order")
    options = parser.parse_args()
    ids = [line.removeprefix("n") for line in options.ids.read_text().split()]
    synsets, senses = read_synsets(options.wordnet / "data.noun"), read_senses(options.wordnet / "index.noun")
    below = classes_below(synsets, ids)
    TABLE.mkdir(parents=True, exist_ok=True)
    _write("nouns.tsv", table_lines(synsets, senses, read_counts(options.wordnet / "cntlist.rev"), ids))
    known = {lemma.lower() for offset in below for lemma in synsets[offset].lemmas}
    _write("irregular.tsv", exception_lines(options.wordnet / "noun.exc", known))
    _write("near.tsv", near_lines(synsets, senses, below))


if __name__ == "__main__":
    main()
