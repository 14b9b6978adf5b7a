"""Comparison of two images: their OR, AND, NOT and difference, feature by feature."""

from typing import Final

import torch

from ..logic import Formula, FormulaError, Representation, degree_distance
from ..logic.formula import write_name
from .errors import RequestError
from .formula_schemas import FormulaName
from .formulas import present_names
from .presenters import strongest_images
from .schemas import CompareAnswer, ComparedImage, Operation
from .snapshots import Snapshot
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


def compare(a: str, b: str, count: int, snapshot: Snapshot, uploads: Uploads) -> CompareAnswer:
    """Compare two images in the most informative features: what only one has, and what both have above average."""
    first, second = _find(a, snapshot, uploads), _find(b, snapshot, uploads)
    one, other = _represent(first, snapshot, uploads), _represent(second, snapshot, uploads)
    shared = (one & other).degrees - torch.from_numpy(snapshot.browser.features.mean).float()
    # Rank features by three criteria, and take the best rank of each feature, so that all three are represented.
    criteria = torch.stack([one.degrees - other.degrees, other.degrees - one.degrees, shared])
    ranks = criteria.argsort(descending=True).argsort().amin(0)
    chosen = ranks.argsort(stable=True)[:count]
    # An image compared with itself is one variable, not two that happen to be equal: a & a is a.
    is_same = (first.id, first.upload) == (second.id, second.upload)
    values = {"a": Representation(one.probs[chosen]), "b": Representation(other.probs[chosen])}
    computed: dict[Operation, Representation] = {
        operation: Formula(text.format(a="a", b="a" if is_same else "b")).evaluate(values)
        for operation, text in _FORMULAS.items()
    }
    return CompareAnswer(
        a=_present(first),
        b=_present(second),
        features=chosen.tolist(),
        shown_by=[strongest_images(snapshot.browser, feature) for feature in chosen.tolist()],
        degrees={operation: value.degrees.tolist() for operation, value in computed.items()},
        distributions={operation: value.probs.tolist() for operation, value in computed.items()},
        distance=max(0.0, float(degree_distance(one, other))),
    )


def _find(name: str, snapshot: Snapshot, uploads: Uploads) -> FormulaName:
    """Return the image of that name, or raise a RequestError."""
    try:
        resolved = snapshot.gallery.resolve(f"image:{write_name(name)}", uploads.known([name]))
    except FormulaError as error:
        raise RequestError(404, error.code, error.message) from None
    return present_names(resolved, snapshot.browser, uploads.file_names)[0]


def _present(found: FormulaName) -> ComparedImage:
    return ComparedImage(id=found.id, upload=found.upload, version=found.version, name=found.file)


def _represent(found: FormulaName, snapshot: Snapshot, uploads: Uploads) -> Representation:
    if found.id is not None:
        return snapshot.gallery.represent([found.id])[0]
    return uploads.represent([found.name], snapshot)[found.name]
