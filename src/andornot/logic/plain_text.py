"""Convert plain-text queries to formulas: `dogs on a beach without people` is `dogs and beach and not person`.

Valid formulas, and invalid ones with operator signs, are returned unchanged. Any other text is split into words: those
in the tables below join, negate or are ignored, all others are names. The longest known name of several words is used;
unknown words are joined with the known word after them. No text raises an error.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, Literal, NamedTuple

from .atoms import RESERVED, Atom, write_name
from .parser import MAX_CHARACTERS, parse
from .tokens import FormulaError

# What a name refers to; empty if it is unknown.
NameKind = Literal["image", "definition", "word", ""]

MAX_WORDS: Final = 100
_LONGEST_NAME: Final = 5
_STRICT: Final = re.compile(r"[&|~()\[\]*]|![^?.!\s]|(?<!\bword)(?<!\bimage):(?!\s|$)", re.IGNORECASE)
_MINUS: Final = re.compile(r"(?:^|(?<=\s))-(?=[^\W\d]|[\"'])")
_TOKEN: Final = re.compile(
    r"""(?:(?P<kind>word|image):)?
        (?:"(?P<double>(?:[^"\\]|\\.)+)" | (?<!\w)'(?P<single>(?:[^'\\]|\\.)+)'(?=[\s,;]|$) | (?P<bare>[^\s,;"+]+))
        | (?P<sign>[,;+"])""",
    re.VERBOSE | re.IGNORECASE,
)
_EXCEPT: Final = re.compile(r"(?:^|\s)except(?:\s+for)?\s+(?=\S)", re.IGNORECASE)
_QUOTES: Final = str.maketrans("“”„‟‘’‚", '""""\'\'\'')
_DASHES: Final = ("-", "–", "—", "--")

# "No people" also excludes a single person, while *people* as a word of the vocabulary means several.
_NEGATED: Final = {"people": "person"}

Role = Literal["and", "or", ",", "with", "without", "not", ""]

# Words that join, negate, or are ignored. `not` applies to the next name and those joined to it by "or", `without` to
# all names up to the next preposition.
_OPERATORS: Final[dict[Role, str]] = {
    "and": "and; plus; also; but; but also; yet; as well as; together with; along with; and also; +",
    "or": "or; and/or; or else",
    "without": """without; w/o; except; except for; excluding; minus; but not; but no; but without; and without;
        other than; apart from; aside from; instead of; rather than; free of; lacking; neither; nor; but neither;
        with neither; and neither; none of; not including; not containing; not showing""",
    "not": """not; no; and no; and not; with no; non; isn't; isnt; aren't; arent; is not; are not; don't; dont; do not;
        does not; doesn't; doesnt; has no; have no; no more; never""",
    "with": """with; on; in; at; by; near; under; over; behind; before; beside; between; next to; close to; in front of;
        on top of; onto; into; around; above; below; against; across; through; during; from; of; to; for; beneath;
        among; amid; along; off; up; down; while; when; where; who; that; which; whose; in which; on which; has; have;
        having; not without""",
    "": """a; an; the; some; any; this; these; those; my; our; your; his; her; their; its; it; me; us; i; you; we;
        please; either; both; is; are; was; were; be; am; there; what; about; can; could; would; do; does; one of;
        any of; all of; each; all; every; only; just""",
}
# The same, unless the word is a known name, such as *flying*; German words as well, as *die* is a noun in English.
_SOFT: Final[dict[Role, str]] = {
    "with": """inside; outside; containing; showing; featuring; including; contains; shows; shown; features; riding;
        holding; playing; sitting; standing; lying; wearing; eating; walking; running; jumping; sleeping; catching;
        carrying; looking; driving; flying; swimming; drinking; using; chasing; pulling; pushing; throwing; hitting;
        watching; waiting; crossing; surrounded; covered; filled; parked; seen""",
    "": """photo; photos; picture; pictures; image; images; pic; pics; shot; shots; snapshot; snapshots; photograph;
        photographs; show; find; search; search for; look for; looking for; looking at; look at; give; want; want to;
        see; get; list; display; like; something; lots of; lot of; lots; many; several; few; couple of; pair of;
        bunch of; group of; kind of; more; two; three; four; five; six; seven; eight; nine; ten; one; big; small;
        little; large; tiny; huge; nice; beautiful; cute; lovely; good; great; best; pretty; cool; funny; amazing;
        awesome; very; really""",
}
# The same in German, the first other language of the page.
_GERMAN: Final[dict[Role, str]] = {
    "and": "und; sowie; aber; und auch",
    "or": "oder",
    "without": """ohne; außer; weder; noch; und ohne; aber ohne; anstatt; statt; aber nicht; aber kein; aber keine;
        aber keinen""",
    "not": """nicht; kein; keine; keinen; keinem; keiner; und nicht; und kein; und keine; und keinen""",
    "with": """mit; auf; im; bei; neben; unter; über; vor; hinter; zwischen; aus; von; vom; beim; zum; zur; ins;
        aufs""",
    "": """ein; eine; einen; einem; einer; eines; der; die; das; den; dem; des; mein; meine; meinen; meinem; meiner;
        foto; fotos; bild; bilder; zeig; zeige; mir; suche; bitte; alle; viele; zwei; drei""",
}


class PlainQuery(NamedTuple):
    """A query as a formula, and the images after `except`, which are excluded from its hits."""

    formula: str
    excluded: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.formula} except {', '.join(map(write_name, self.excluded))}" if self.excluded else self.formula


def read_plain_text(text: str, kind_of: Callable[[str], NameKind]) -> PlainQuery:
    """Convert a text to a query; `kind_of` returns what a name of one or more words refers to.

    >>> known = {"dog": "word", "polar bear": "word", "x.jpg": "image"}
    >>> str(read_plain_text("photos of a dog, no polar bear", lambda name: known.get(name, "")))
    'dog and not "polar bear"'
    >>> read_plain_text("dog & ~x.jpg except x.jpg", lambda name: known.get(name, ""))
    PlainQuery(formula='dog & ~x.jpg', excluded=('x.jpg',))
    """
    if len(text) > MAX_CHARACTERS:
        return PlainQuery(text)
    known = cache(kind_of)
    text, excluded = _split_exceptions(text, known)
    return PlainQuery(_formula(text, known), excluded)


def _split_exceptions(text: str, kind_of: Callable[[str], NameKind]) -> tuple[str, tuple[str, ...]]:
    """Split a text at its last `except` if only images follow; return the text before it, and these images."""
    found = [*_EXCEPT.finditer(text)]
    if not found or not text[: found[-1].start()].strip():
        return text, ()
    tail = _words(text[found[-1].end() :])
    names: list[str] = []
    while tail:
        length = next((n for n in _lengths(tail, 1) if kind_of(_joined(tail[:n])) == "image"), 0)
        if not length and _plain(tail[0]) not in (",", "and", "or"):
            return text, ()
        names += [_joined(tail[:length])] * bool(length)
        tail = tail[length or 1 :]
    return (text[: found[-1].start()], tuple(dict.fromkeys(names))) if names else (text, ())


def _formula(text: str, kind_of: Callable[[str], NameKind]) -> str:
    if _is_strict(text) and not any(_is_without(text, minus.end(), kind_of) for minus in _MINUS.finditer(text)):
        return text
    plain = text.translate(_QUOTES)
    words = _words(plain)
    if _STRICT.search(plain) or len(words) > MAX_WORDS or any(word.text == '"' for word in words):
        return text
    parts = [*_parts(words, kind_of)]
    if not any(part.name for part in parts):
        typed = [word.text for word in words if word.text.lower() not in (*RESERVED, ",")]
        parts = [_QueryPart("", write_name(" ".join(typed)))] if typed else []
    words_for = _NEGATED if kind_of("person") == "word" else {}
    formula = " or ".join(text for segments in _clauses(parts) if (text := _write_clause(segments, words_for)))
    return formula if _is_strict(formula) else text


def _is_strict(text: str) -> bool:
    try:
        parse(text)
    except FormulaError:
        return False
    return True


def _is_without(text: str, start: int, kind_of: Callable[[str], NameKind]) -> bool:
    """Return whether the `-` before a name means "without", as in `dog -person`; between images it is a difference."""
    return not _STRICT.search(text) and kind_of(_words(text[start:])[0].text) not in ("image", "definition")


# --- words ----------------------------------------------------------------------------------------------------------


class _Word(NamedTuple):
    """A word or a sign; `written` is the atom if the word is quoted or has a kind, else empty."""

    text: str
    written: str = ""


def _words(text: str) -> list[_Word]:
    found = []
    for match in _TOKEN.finditer(_MINUS.sub(" without ", text)):
        name = match["double"] or match["single"]
        if match["sign"]:
            found.append(_Word("," if match["sign"] == ";" else match["sign"]))
        elif name or match["kind"]:
            unquoted = re.sub(r"\\(.)", r"\1", name) if name else match["bare"]
            found.append(_Word(unquoted, str(Atom(unquoted, (match["kind"] or "").lower()))))
        elif match["bare"] in _DASHES:
            found.append(_Word(","))
        elif bare := match["bare"].rstrip(".?!…:"):
            found.append(_Word(bare))
    return found


def _plain(word: _Word) -> str:
    return "" if word.written else word.text.lower()


def _joined(words: Sequence[_Word]) -> str:
    return " ".join(word.text for word in words)


def _lengths(words: Sequence[_Word], least: int) -> Iterator[int]:
    """Yield the numbers of leading words that may form one name, longest first."""
    most = next((n for n, word in enumerate(words[:_LONGEST_NAME]) if word.written or word.text in ",+"), _LONGEST_NAME)
    yield from range(min(len(words), max(most, 1)), least - 1, -1)


@cache
def _roles(*tables: int) -> dict[str, Role]:
    chosen = [(_OPERATORS, _SOFT, _GERMAN)[number] for number in tables]
    return {words.strip(): role for table in chosen for role, text in table.items() for words in text.split(";")}


# --- names and roles ------------------------------------------------------------------------------------------------


class _QueryPart(NamedTuple):
    """A name in formula notation, or a word that joins or negates names."""

    role: Role
    name: str = ""


def _parts(words: list[_Word], kind_of: Callable[[str], NameKind]) -> Iterator[_QueryPart]:
    """Yield the names of a text and the words that join or negate them."""
    unknown: list[str] = []
    place = 0
    while place < len(words):
        rest = words[place:]
        length, role, kind = _next(rest, kind_of)
        place += length
        text = _joined(rest[:length])
        if role is None and not kind and not rest[0].written:
            unknown.append(text)
            continue
        takes_unknown = role is None and kind == "word" and not rest[0].written
        if unknown and not takes_unknown:
            yield _QueryPart("", write_name(" ".join(unknown)))
        if role is not None:
            yield _QueryPart(role)
        else:
            yield _QueryPart("", rest[0].written or write_name(" ".join([*unknown, text] if takes_unknown else [text])))
        unknown = []
    if unknown:
        yield _QueryPart("", write_name(" ".join(unknown)))


def _next(words: list[_Word], kind_of: Callable[[str], NameKind]) -> tuple[int, Role | None, NameKind]:
    """Return the number of words in the next part, and its role, or None and its kind if it is a name."""
    first = words[0]
    if first.written:
        return 1, None, ""
    if first.text == ",":
        return 1, ",", ""
    for length in _lengths(words, 2):
        joined = words[:length]
        if not any(_plain(word) in RESERVED for word in joined) and (kind := kind_of(_joined(joined))):
            return length, None, kind
    lower = _plain(first)
    kind = "" if lower in RESERVED else kind_of(first.text)
    is_number = lower.isdigit() and len(words) > 1 and not words[1].written and _role(words[1:]) is None
    if kind in ("image", "definition") and not is_number:
        return 1, None, kind
    role = _role(words, soft=not kind)
    if role is not None:
        return role[0], role[1], ""
    if is_number and words[1].text != ",":
        return 1, "", ""
    if not kind and lower.endswith("'s"):
        words[0] = _Word(first.text[:-2] or first.text)
        return 1, None, kind_of(words[0].text)
    return 1, None, kind


def _role(words: Sequence[_Word], *, soft: bool = True) -> tuple[int, Role] | None:
    """Return the length in words of the longest matching entry of the tables, and its role."""
    roles = _roles(0, 1, 2) if soft else _roles(0)
    for length in range(min(3, len(words)), 0, -1):
        entry = " ".join(map(_plain, words[:length]))
        if entry in roles:
            return length, roles[entry]
    return None


# --- clauses --------------------------------------------------------------------------------------------------------


class _Segment(NamedTuple):
    """A list of names, each with the conjunction before it. `negation` is "not", "without", or empty."""

    negation: Role
    names: list[tuple[Role, str]]


def _clauses(parts: list[_QueryPart]) -> Iterator[list[_Segment]]:
    """Split a query into clauses at "or", but only if both sides have a preposition or negation, or neither can."""
    parts = [part for part in parts if part.role or part.name]
    start = 0
    for place, part in enumerate(parts):
        if part.role == "or" and _begins_clause(parts, start, place):
            yield _segments(parts[start:place])
            start = place + 1
    yield _segments(parts[start:])


def _begins_clause(parts: list[_QueryPart], start: int, place: int) -> bool:
    following = next((n for n in range(place + 1, len(parts)) if parts[n].role == "or"), len(parts))
    left, right = _segments(parts[start:place]), _segments(parts[place + 1 : following])
    if not left or not right:
        return False
    if right[0].negation:
        return True
    return len(left) > 1 and len(right) > 1 and parts[place + 1].role != "with"


def _segments(parts: list[_QueryPart]) -> list[_Segment]:
    segments = [_Segment("", [])]
    joint: Role = ""
    for place, part in enumerate(parts):
        negation, names = segments[-1]
        if part.name:
            if names and negation and not _stays_negated(negation, joint, parts[place:]):
                segments.append(_Segment("", []))
            segments[-1].names.append((joint, part.name))
            joint = ""
        elif part.role in ("not", "without"):
            if names or not negation:
                segments.append(_Segment(part.role, []))
            joint = ""
        elif part.role == "with":
            if names and joint != "or":
                segments.append(_Segment("", []))
                joint = ""
        elif part.role == "or" or joint != "or":
            joint = part.role if part.role != "," or not joint else joint
    return [segment for segment in segments if segment.names]


def _stays_negated(negation: Role, joint: Role, rest: list[_QueryPart]) -> bool:
    """Return whether a name after a negated one is negated as well."""
    if joint == ",":  # the last conjunction of a list decides
        joint = next((part.role for part in rest if part.role in ("and", "or", "not", "without", "with")), "")
        return joint == "or" or (negation == "without" and joint == "and")
    return joint == "or" or negation == "without"


def _write_clause(segments: list[_Segment], words_for: Mapping[str, str]) -> str:
    return " and ".join(
        " and ".join(f"not {words_for.get(name.lower(), name)}" for _, name in names)
        if negation
        else _write_list(names, len(segments) > 1)
        for negation, names in segments
    )


def _write_list(names: list[tuple[Role, str]], in_brackets: bool) -> str:
    """Return the names of a segment as a formula; a comma means the same as the next conjunction in the list."""
    joints: list[str] = []
    for joint, _ in reversed(names):
        joints.append("or" if joint == "or" or (joint == "," and joints and joints[-1] == "or") else "and")
    joined = names[0][1] + "".join(f" {j} {name}" for j, (_, name) in zip(joints[-2::-1], names[1:], strict=True))
    return f"({joined})" if in_brackets and "or" in joints[:-1] else joined
