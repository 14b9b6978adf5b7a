"""An outcome on disk: `result.json` for programs and `report.html` for people."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from ...files import write_text
from ...version import __version__
from ..errors import EvaluationError
from .outcome import Outcome
from .page import make_page

RESULT: Final = "result.json"
REPORT: Final = "report.html"


def write_outcome(
    folder: Path, outcome: Outcome, *, settings: Mapping[str, Any], seed: int | None, seconds: float
) -> None:
    """Writes `report.html` and then `result.json`: a folder with the second is whole.

    `settings` say how to do it again, with the "command" if there is one; `seconds` is how long it took.
    """
    result = plain(
        {
            "title": outcome.title,
            "verdict": outcome.verdict,
            "summary": outcome.summary,
            "figures": outcome.figures,
            "protocol": outcome.protocol,
            "settings": settings,
            "seed": seed,
            "seconds": seconds,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {
                "andornot": __version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
            "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "threads": torch.get_num_threads()},
        }
    )
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    page = make_page(result, outcome.sections)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).unlink(missing_ok=True)
    write_text(folder / REPORT, page)
    write_text(folder / RESULT, text)


def plain(value: Any, place: str = "") -> Any:
    """The value as JSON has it: a tensor is a list, a dataclass an object, a path its text, NaN and infinity are None.

    `place` is where the value stands, for the message about one that JSON cannot have.

    >>> from andornot.evaluate.metrics.intervals import Spread
    >>> plain({"rate": Spread(0.5, math.nan), "counts": torch.tensor([1, 2])})
    {'rate': {'mean': 0.5, 'deviation': None}, 'counts': [1, 2]}
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)  # torch's version is of a class of its own
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return plain(value.tolist(), place)
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str | int):
                raise EvaluationError(f"{place or 'this'} has the key {key!r} where {RESULT} needs a text")
        return {str(key): plain(item, f"{place}.{key}".lstrip(".")) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{place}[{index}]") for index, item in enumerate(value)]
    raise EvaluationError(
        f"{place or 'this'} is a {type(value).__name__}, which {RESULT} cannot have: "
        "make it numbers, texts, lists, dicts, tensors or dataclasses"
    )
