"""What was committed last: what is known of the pictures, and their features."""

from pathlib import Path

import numpy as np

from .database import Snapshot, read_snapshot
from .errors import DamagedError, GalleryError
from .feature_store import Features, checksum


def read(folder: Path) -> tuple[Snapshot, Features]:
    """What was committed last: what is known of the pictures, and their features."""
    snapshot = read_snapshot(folder)
    while True:
        state = snapshot.state
        try:
            return snapshot, Features(folder, state.width, state.first_file, state.rows)
        except FileNotFoundError as missing:
            # A writer may have replaced the files since.
            snapshot = read_snapshot(folder)
            if snapshot.state.first_file == state.first_file:
                raise GalleryError(
                    f"{missing.filename} is missing; andornot index --repair encodes its pictures anew"
                ) from None


def checked(snapshot: Snapshot, features: Features, rows: np.ndarray) -> np.ndarray:
    """The features of some rows `(n, width)`; a DamagedError unless those of pictures are as they were written."""
    found = features.read(rows)
    ids = snapshot.ids_of_rows(rows)
    used = np.flatnonzero(ids)
    for place, crc in zip(used.tolist(), snapshot.catalogue.features_crcs(ids[used]).tolist(), strict=True):
        if checksum(found[place]) != crc:
            entry = snapshot.entry(int(ids[place]))
            path = "a picture" if entry is None else entry.picture.path
            raise DamagedError(f"the features of {path} are damaged: their checksum is not the one that was saved")
    return found
