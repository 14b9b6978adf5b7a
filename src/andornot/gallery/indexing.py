"""From files to a gallery: what is new is encoded, what moved is recognised, what is gone is dropped."""

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np

from ..data.formats import may_be_installed
from ..model import Model
from ..progress import track
from .database import Broken, Picture
from .encoding import Encode, Encoded, encode_files
from .errors import DamagedError
from .feature_store import checksum
from .scanning import Scanned, date_of
from .scope import Scope, is_gone
from .writer import Writer

# A killed process loses the work of at most so much.
COMMIT_SECONDS: Final = 3.0
COMMIT_PICTURES: Final = 512


@dataclass
class Summary:
    """What an `index` did: numbers of pictures; `broken` has the reason for each file that could not be read.

    `skipped` counts the files that are of no supported kind: "video", or the endings of their names.
    """

    added: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = {**asdict(self), "broken": len(self.broken)}
        del counts["skipped"]
        return ", ".join(f"{count:,} {what}" for what, count in counts.items())

    @property
    def is_news(self) -> bool:
        """Whether anything is other than before."""
        return bool(self.added or self.changed or self.moved or self.removed)


class _Known(Collection[bytes]):
    """The digests of contents of which nothing is lacking, as they are at any moment."""

    def __init__(self, source: Mapping[bytes, Picture], wanted: Set[bytes]) -> None:
        self._source, self._wanted = source, wanted

    def __contains__(self, digest: object) -> bool:
        return digest in self._source and digest not in self._wanted

    def __iter__(self) -> Iterator[bytes]:
        return (digest for digest in self._source if digest not in self._wanted)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Indexing:
    """Brings a gallery up to date with the files in scope.

    `suspect`: ids of pictures whose features are damaged, to be encoded whatever their files look like. `lacking`: ids
    of those that lack what is kept beside their features, to be looked at once more for that. `encode` says where that
    is done.
    """

    def __init__(
        self,
        writer: Writer,
        model: Model,
        scope: Scope,
        suspect: Iterable[int] = (),
        lacking: Iterable[int] = (),
        encode: Encode = encode_files,
    ) -> None:
        self._encode = encode
        self._writer, self._model, self._scope, self._suspect = writer, model, scope, set(suspect)
        self._lacking = set(lacking) - self._suspect
        snapshot = writer.snapshot
        self._known = {picture.path: picture for picture in snapshot.pictures()}
        self._undated = set(snapshot.ids[snapshot.by_camera < 0].tolist())
        # By digest: pictures that had that content before, and one whose features can be copied, whatever became of it.
        self._before: dict[bytes, list[Picture]] = {}
        self._source: dict[bytes, Picture] = {}
        self._abandoned: dict[bytes, list[Picture]] = {}
        for picture in self._known.values():
            if picture.id not in self._suspect:
                self._before.setdefault(picture.digest, []).append(picture)
                self._source[picture.digest] = picture
        self._wanted = {picture.digest for picture in self._known.values() if picture.id in self._lacking}
        self._summary = Summary(skipped=scope.skipped)
        self._uncommitted, self._last_commit = 0, time.monotonic()

    def run(self, progress: bool | None) -> Summary:
        """Does it, and commits every few seconds."""
        new = [path for path in self._scope.found if not self._is_unchanged(path)]
        self._model.expect(len(new))
        with track("indexing", len(new), shown=progress) as bar:
            for encoded in self._encode(new, self._model, _Known(self._source, self._wanted)):
                self._take(encoded)
                bar.note(**({"broken": len(self._summary.broken)} if self._summary.broken else {}))
                bar.update(len(encoded.files))
        self._drop()
        self._writer.commit()
        return self._summary

    def _is_unchanged(self, path: str) -> bool:
        picture, broken = self._known.get(path), self._writer.snapshot.broken.get(path)
        if (picture is None and broken is None) or (
            picture is not None and (picture.id in self._suspect or picture.id in self._lacking)
        ):
            return False
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return False
        now = (status.st_size, status.st_mtime_ns)
        if picture is not None and now == (picture.size, picture.mtime_ns):
            self._summary.unchanged += 1
            if picture.id in self._undated and (date := date_of(path, status.st_mtime)) is not None:
                self._update(picture._replace(taken=date[0]), date[1])
            return True
        if broken is not None and now == (broken.size, broken.mtime_ns) and not may_be_installed(broken.reason):
            self._summary.broken[path] = broken.reason
            return True
        return False

    def _take(self, encoded: Encoded) -> None:
        """Makes some files part of the gallery."""
        seen, numbers = encoded.seen, {digest: number for number, digest in enumerate(encoded.fresh)}
        if seen is not None:
            self._writer.begin_regions(self._model, seen)
        features = {} if seen is None else dict(zip(encoded.fresh, seen.features, strict=True))
        beside: dict[int, list[tuple[int, int]]] = {}
        for item in encoded.files:
            if item.reason:
                self._put_broken(item)
            elif (place := self._put(item, features)) is not None:
                beside.setdefault(numbers[item.digest], []).append(place)
        if seen is not None:
            self._writer.put_beside(self._model, seen, beside)
        self._uncommitted += len(encoded.files)
        if self._uncommitted >= COMMIT_PICTURES or time.monotonic() > self._last_commit + COMMIT_SECONDS:
            self._writer.commit()
            self._uncommitted, self._last_commit = 0, time.monotonic()

    def _put(self, item: Scanned, features: dict[bytes, np.ndarray]) -> tuple[int, int] | None:
        """Makes a file part of the gallery; the row that is to get more beside its features, and their checksum."""
        before, source = self._known.get(item.path), self._source.get(item.digest)
        if before is not None and before.digest == item.digest and before.id not in self._suspect:  # only touched
            self._summary.unchanged += 1
            now = before._replace(size=item.size, mtime_ns=item.mtime_ns, taken=item.taken)
            if now != before or before.id in self._undated:
                self._update(now, item.by_camera)
            return (before.row, before.features_crc) if before.id in self._lacking else None
        if before is None and (moved := self._take_abandoned(item.digest)) is not None:
            self._summary.moved += 1
            self._known.pop(moved.path, None)
            same = moved._replace(path=item.path, size=item.size, mtime_ns=item.mtime_ns, taken=item.taken)
            self._update(same, item.by_camera)
            return (moved.row, moved.features_crc) if moved.id in self._lacking else None
        if before is None:
            self._summary.added += 1
        else:
            self._summary.changed += 1
        row = self._stored(source) if source is not None else features[item.digest]
        picture = Picture(
            before.id if before is not None else self._writer.new_id(),
            item.path,
            item.size,
            item.mtime_ns,
            item.digest,
            item.taken,
            self._writer.features.append(row[None]),
            checksum(row),
        )
        if before is None:
            self._keep(picture)
            self._writer.database.insert(picture, item.by_camera)
        else:
            self._update(picture, item.by_camera)
        if item.digest in features:
            return picture.row, picture.features_crc
        if source is not None:
            self._writer.copy_beside(source, picture.row)
        return None

    def _stored(self, picture: Picture) -> np.ndarray:
        """The features of a picture, to be copied; damage must not get a checksum that fits."""
        row = self._writer.features.read(picture.row)
        if checksum(row) != picture.features_crc:
            raise DamagedError(
                f"the features of {picture.path} are damaged: their checksum is not the one that was saved"
            )
        return row

    def _take_abandoned(self, digest: bytes) -> Picture | None:
        """A picture of that content whose file is gone, or has another name now; each only once."""
        if digest not in self._abandoned:
            self._abandoned[digest] = [
                picture
                for picture in self._before.get(digest, ())
                if is_gone(picture.path) or self._scope.misses(picture.path)
            ]
        return self._abandoned[digest].pop(0) if self._abandoned[digest] else None

    def _keep(self, picture: Picture) -> None:
        self._known[picture.path] = picture
        self._source[picture.digest] = picture

    def _update(self, picture: Picture, by_camera: bool) -> None:
        self._keep(picture)
        self._writer.database.update(picture, by_camera)

    def _put_broken(self, item: Scanned) -> None:
        if item.is_out_of_reach and not is_gone(item.path):
            # For now, perhaps: nothing is concluded from that, and the next index tries again.
            self._summary.broken[item.path] = item.reason
            return
        before = self._known.get(item.path)
        same = before is not None and (is_gone(item.path) or (item.size, item.mtime_ns) == before[2:4])
        if before is not None and before.id in self._lacking and same:
            self._summary.unchanged += 1  # its features are there: nothing is lost if it cannot be looked at once more
            return
        self._known.pop(item.path, None)
        if before is not None:
            self._writer.database.remove(before.id)
        if is_gone(item.path):  # since it was found
            self._summary.removed += before is not None
            return
        self._summary.broken[item.path] = item.reason
        self._writer.database.put_broken(Broken(item.path, item.size, item.mtime_ns, item.reason))

    def _drop(self) -> None:
        for path, picture in self._known.items():
            if self._scope.misses(path):
                self._summary.removed += 1
                self._writer.database.remove(picture.id)
        for path in self._writer.snapshot.broken:
            if self._scope.misses(path):
                self._writer.database.remove_broken(path)
