"""A model as bytes, for where it cannot be read from its folder: another machine, or a database."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..model import DESCRIPTION, WEIGHTS, Model


def pack_model(model: Model) -> dict[str, bytes]:
    """Its files by name, as `Model.save` writes them."""
    with tempfile.TemporaryDirectory(prefix="andornot-") as folder:
        model.save(folder)
        return {name: Path(folder, name).read_bytes() for name in (DESCRIPTION, WEIGHTS)}


def unpack_model(files: Mapping[str, bytes]) -> Model:
    """The model of what `pack_model` gave. What is damaged is a ModelError: its description has a checksum."""
    with tempfile.TemporaryDirectory(prefix="andornot-") as folder:
        for name in (DESCRIPTION, WEIGHTS):
            Path(folder, name).write_bytes(files[name])
        return Model.load(folder)
