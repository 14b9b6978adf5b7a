"""Two pictures side by side: what OR, AND, NOT and the difference make of their features."""

from typing import Final

import torch

from ..logic import Formula, FormulaError, Representation, degree_distance
from ..logic.formula import write_name
from .follower import Served
from .formulas import names
from .presenters import shown_by
from .problems import RequestError
from .schemas import CompareAnswer, Compared, FormulaName, Operation
from .uploads import Uploads

_FORMULAS: Final[dict[Operation, str]] = {
    "a": "{a}",
    "b": "{b}",
    "or": "{a} | {b}",
    "and": "{a} & {b}",
    "not_a": "~{a}",
    "not_b": "~{b}",
    "a_minus_b": "{a} - {b}",
    "b_minus_a": "{b} - {a}",
}


def compare(a: str, b: str, count: int, served: Served, uploads: Uploads) -> CompareAnswer:
    """Both pictures, in the features with the most to see: what only one has, and what both have beyond the average."""
    first, second = _find(a, served, uploads), _find(b, served, uploads)
    one, other = _represent(first, served, uploads), _represent(second, served, uploads)
    shared = (one & other).degrees - torch.from_numpy(served.browser.features.mean).float()
    # As many of each kind: the best place of a feature in three orders counts.
    kinds = torch.stack([one.degrees - other.degrees, other.degrees - one.degrees, shared])
    places = kinds.argsort(descending=True).argsort().amin(0)
    chosen = places.argsort(stable=True)[:count]
    # A picture beside itself is one variable, and not two that happen to be alike: what both share is all of it.
    same = (first.id, first.upload) == (second.id, second.upload)
    values = {"a": Representation(one.probs[chosen]), "b": Representation(other.probs[chosen])}
    computed: dict[Operation, Representation] = {
        operation: Formula(text.format(a="a", b="a" if same else "b")).evaluate(values)
        for operation, text in _FORMULAS.items()
    }
    return CompareAnswer(
        a=_told(first),
        b=_told(second),
        features=chosen.tolist(),
        shown_by=[shown_by(served.browser, feature) for feature in chosen.tolist()],
        degrees={operation: value.degrees.tolist() for operation, value in computed.items()},
        distributions={operation: value.probs.tolist() for operation, value in computed.items()},
        distance=max(0.0, float(degree_distance(one, other))),
    )


def _find(name: str, served: Served, uploads: Uploads) -> FormulaName:
    """The one picture of that name."""
    try:
        resolved = served.gallery.resolve(f"picture:{write_name(name)}", uploads.known([name]))
    except FormulaError as error:
        raise RequestError(404, error.message) from None
    return names(resolved, served.browser, uploads.file_names)[0]


def _told(found: FormulaName) -> Compared:
    return Compared(id=found.id, upload=found.upload, version=found.version, name=found.file)


def _represent(found: FormulaName, served: Served, uploads: Uploads) -> Representation:
    if found.id is not None:
        return served.gallery.represent([found.id])[0]
    return uploads.represent([found.name], served)[found.name]
