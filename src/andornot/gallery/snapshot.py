"""One moment of a gallery's records: nothing is read of them before it is asked for."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Final

import numpy as np

from .catalogue import Catalogue
from .definitions import Definitions
from .records import Broken, Entry, Picture, State

# So many file names are looked through for one that may have been meant.
_SUGGESTED_FROM: Final = 200_000


class Snapshot:
    """All that one moment's database says: the `Records` of a gallery in a folder.

    Pictures are in the order of their ids; a position is a place in it. `is_old`: it is in the format of 0.1.
    `definitions` are names that were given to formulas.
    """

    def __init__(
        self,
        state: State,
        catalogue: Catalogue,
        broken: Iterable[Broken],
        is_old: bool = False,
        definitions: Mapping[str, str] | None = None,
    ) -> None:
        self.state, self.catalogue, self.is_old = state, catalogue, is_old
        self.definitions = Definitions(definitions or {})
        self.broken = {entry.path: entry for entry in broken}

    def __len__(self) -> int:
        return len(self.catalogue)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that `update` looks through."""
        return self.state.folders

    # --- one picture ------------------------------------------------------------------------------------------------

    def entry(self, identity: int) -> Entry | None:
        """All that is known of a picture; None if there is no such picture."""
        position = self.catalogue.position_of(identity)
        return None if position is None else self.catalogue.entry_at(position)

    def called(self, file_name: str) -> Iterator[Entry]:
        """The pictures whose files have that name, in the order of their ids."""
        try:
            return self.catalogue.called(os.fsencode(file_name))
        except UnicodeEncodeError:  # no file can be called so
            return iter(())

    def with_digest(self, digest: bytes) -> Iterator[Entry]:
        """The pictures with that content."""
        return self.catalogue.with_digest(digest)

    def some_names(self) -> Iterator[str]:
        """File names, to suggest one of them: of a large gallery not all."""
        return (os.path.basename(path) for path in islice(self.paths, _SUGGESTED_FROM))  # noqa: PTH119

    def picture(self, position: int) -> Picture:
        """The picture at a position."""
        return self.catalogue.entry_at(position).picture

    # --- all of them ------------------------------------------------------------------------------------------------

    @property
    def ids(self) -> np.ndarray:
        """All ids; read anew each time, as the next three."""
        return self.catalogue.column("ids")

    @property
    def rows(self) -> np.ndarray:
        """The row of features of each picture."""
        return self.catalogue.column("rows")

    @property
    def taken(self) -> np.ndarray:
        """When each was taken, in seconds as `Picture.taken` has them."""
        return self.catalogue.column("taken")

    @property
    def by_camera(self) -> np.ndarray:
        """1 for a date that the camera noted, 0 for the time of the file, -1 where it is not known."""
        return self.catalogue.column("by_camera")

    @property
    def paths(self) -> Iterator[str]:
        """All paths."""
        return map(os.fsdecode, self.catalogue.paths())

    def pictures(self) -> Iterator[Picture]:
        """All pictures."""
        return (entry.picture for entry in self.catalogue.entries())

    @cached_property
    def folder_counts(self) -> dict[str, int]:
        """How many pictures lie directly in each folder that has any."""
        counts: Counter[bytes] = Counter()
        for table, numbers in self.catalogue.each_folder():
            counts.update(dict(zip(table, np.bincount(numbers, minlength=len(table)).tolist(), strict=True)))
        return {_as_folder(folder): count for folder, count in counts.items()}

    def in_folders(self, passes: Callable[[str], bool]) -> np.ndarray:
        """Which positions are directly in a folder that passes, `(n,)` bool."""
        known: dict[bytes, bool] = {}
        parts = [np.empty(0, bool)]
        for table, numbers in self.catalogue.each_folder():
            for folder in table:
                if folder not in known:
                    known[folder] = passes(_as_folder(folder))
            parts.append(np.array([known[folder] for folder in table], bool)[numbers])
        return np.concatenate(parts)

    # --- rows -------------------------------------------------------------------------------------------------------

    def ids_of_rows(self, rows: np.ndarray) -> np.ndarray:
        """For each row the id of its picture; 0 for one that belongs to none."""
        return np.asarray(self.id_of_row[rows])

    def rows_of(self, ids: np.ndarray) -> np.ndarray:
        """The rows of pictures by their ids, without those that there are not."""
        return self.catalogue.rows_of(ids)

    @cached_property
    def id_of_row(self) -> np.ndarray:
        """For each row of features the id of its picture, or 0."""
        result = np.zeros(self.state.rows, np.int32 if self.state.next_id < 2**31 else np.int64)
        for chunk in range(len(self.catalogue.chunks)):
            result[self.catalogue.numbers_of([chunk], "rows")] = self.catalogue.numbers_of([chunk], "ids")
        return result

    def follow(self, earlier: "Snapshot") -> None:
        """Takes over what an earlier moment knew already, as far as it is the same."""
        known = earlier.__dict__.get("id_of_row")
        mine, theirs = self.catalogue, earlier.catalogue
        same_files = (self.state.first_file, mine.file) == (earlier.state.first_file, theirs.file)
        if known is None or not same_files or not mine.file or self.state.next_id >= 2**31:
            return
        result = np.zeros(self.state.rows, np.int32)
        result[: len(known)] = known[: len(result)]
        gone, new = theirs.other_chunks(mine), mine.other_chunks(theirs)
        result[theirs.numbers_of(gone, "rows")] = 0
        result[mine.numbers_of(new, "rows")] = mine.numbers_of(new, "ids")
        self.__dict__["id_of_row"] = result

    def contradiction(self) -> str:
        """What does not fit together, though each record is whole by itself; nothing if all does."""
        state, ids, rows = self.state, self.ids, self.rows
        if len(self) != state.pictures:
            return f"it has {len(self):,} pictures, and there were {state.pictures:,}"
        if not len(self):
            return ""
        if rows.min() < 0 or rows.max() >= state.rows:
            return "it names features that were never written"
        if ids[0] < 1 or ids[-1] >= state.next_id or (np.diff(ids) <= 0).any():
            return "it has ids that were never given"
        used = np.zeros(state.rows, bool)
        used[rows] = True
        return "two pictures have the same features" if np.count_nonzero(used) < len(self) else ""


def _as_folder(folder: bytes) -> str:
    """A folder as paths have it, without the separator behind it; that of the root stays."""
    return os.fsdecode(folder[:-1] if len(folder) > 1 else folder)
