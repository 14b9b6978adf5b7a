"""From files to a gallery: what is new is encoded, what moved is recognised, what is gone is dropped."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from tqdm import tqdm

from ..data.formats import may_be_installed, picture_extensions
from ..data.sources.folder import find_pictures
from ..model import Model
from .database import Broken, Picture
from .errors import GalleryError
from .examining import Examined, date_of, examine_all
from .writer import Writer, as_rows, checksum

BATCH: Final = 64
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


class Scope:
    """Which files an `index` looks at: those found now, and those that the gallery has from the same places."""

    def __init__(
        self,
        folders: Iterable[str],
        files: Iterable[str],
        found: Iterable[str],
        skipped: Mapping[str, int] | None = None,
    ) -> None:
        self.folders = list(folders)
        self._files = set(files)
        self.found = sorted(set(found) | self._files)
        self._found = set(self.found)
        self.skipped = dict(sorted((skipped or {}).items()))

    def misses(self, path: str) -> bool:
        """Whether a file should have been found, and is gone."""
        return path not in self._found and self._covers(path) and is_gone(path)

    def _covers(self, path: str) -> bool:
        return path in self._files or any(is_inside(path, folder) for folder in self.folders)


def look_through(paths: Sequence[str], known: Iterable[str], prune: bool) -> Scope:
    """Finds the pictures in folders and files. `known` are the paths in the gallery.

    A folder that has nothing of what the gallery knows from there is more likely a disk that is not mounted than one
    that was emptied: an error, unless `prune`.
    """
    in_gallery = set(known)
    folders: list[str] = []
    files: list[str] = []
    found: list[str] = []
    skipped: Counter[str] = Counter()
    for path in paths:
        if os.path.isfile(path):  # noqa: PTH113
            files.append(path)
            continue
        folders.append(path)
        is_folder = os.path.isdir(path)  # noqa: PTH112
        pictures = find_pictures(Path(path), skipped=skipped) if is_folder else []
        found += pictures
        if pictures or prune or path in in_gallery:
            continue
        if inside := sum(is_inside(other, path) for other in in_gallery):
            raise GalleryError(
                f"{path} is {'empty' if is_folder else 'not there'}, and the gallery has {inside:,} pictures from it: "
                "is a disk not mounted? --prune drops them"
            )
        raise GalleryError(_nothing_in(path, skipped))
    return Scope(folders, files, found, skipped)


def told_skipped(skipped: Mapping[str, int]) -> list[str]:
    """A line for each kind of files that is not supported.

    >>> told_skipped({".psd": 1, "video": 3})
    ['1 .psd file skipped: not supported', '3 videos skipped: not supported']
    """
    return [
        f"{count:,} {kind if kind == 'video' else f'{kind} file'}{'' if count == 1 else 's'} skipped: not supported"
        for kind, count in skipped.items()
    ]


def index(writer: Writer, model: Model, scope: Scope, *, suspect: Iterable[int] = (), progress: bool | None) -> Summary:
    """Brings the gallery up to date with the files in scope, and commits every few seconds.

    `suspect`: ids of pictures whose features are damaged, to be encoded whatever their files look like.
    """
    return _Indexing(writer, model, set(suspect)).run(scope, progress)


class _Indexing:
    def __init__(self, writer: Writer, model: Model, suspect: set[int]) -> None:
        self._writer, self._model, self._suspect = writer, model, suspect
        snapshot = writer.snapshot
        self._known = {picture.path: picture for picture in snapshot.pictures()}
        # By digest: pictures that had that content before, and one whose features can be copied, whatever became of it.
        self._before: dict[bytes, list[Picture]] = {}
        self._source: dict[bytes, Picture] = {}
        self._abandoned: dict[bytes, list[Picture]] = {}
        for picture in self._known.values():
            if picture.id not in suspect:
                self._before.setdefault(picture.digest, []).append(picture)
                self._source[picture.digest] = picture
        self._by_camera = dict(zip(snapshot.ids.tolist(), snapshot.by_camera.tolist(), strict=True))
        self._summary = Summary()
        self._uncommitted, self._last_commit = 0, time.monotonic()

    def run(self, scope: Scope, progress: bool | None) -> Summary:
        self._summary.skipped = scope.skipped
        new = [path for path in scope.found if not self._is_unchanged(path)]
        disabled = None if progress is None else not progress  # None: only on a terminal
        bar = tqdm(total=len(new), desc="indexing", unit=" pictures", delay=1, disable=disabled)
        with bar:
            batch: list[Examined] = []
            for examined in examine_all(new, self._model, self._source.__contains__):
                batch.append(examined)
                if len(batch) == BATCH:
                    self._take(batch)
                    bar.set_postfix(broken=len(self._summary.broken), refresh=False)
                    bar.update(len(batch))
                    batch = []
            self._take(batch)
            bar.update(len(batch))
        self._drop(scope)
        self._writer.commit()
        return self._summary

    def _is_unchanged(self, path: str) -> bool:
        picture, broken = self._known.get(path), self._writer.snapshot.broken.get(path)
        if (picture is None and broken is None) or (picture is not None and picture.id in self._suspect):
            return False
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return False
        now = (status.st_size, status.st_mtime_ns)
        if picture is not None and now == (picture.size, picture.mtime_ns):
            self._summary.unchanged += 1
            if self._by_camera.get(picture.id) == -1 and (date := date_of(path, status.st_mtime)) is not None:
                self._keep(picture._replace(taken=date[0]), date[1])
            return True
        if broken is not None and now == (broken.size, broken.mtime_ns) and not may_be_installed(broken.reason):
            self._summary.broken[path] = broken.reason
            return True
        return False

    def _take(self, batch: list[Examined]) -> None:
        """Makes the files of a batch part of the gallery."""
        fresh = {item.digest: item.pixels for item in batch if self._must_be_encoded(item)}
        features = {}
        if fresh:
            pixels = torch.stack([pixels for pixels in fresh.values() if pixels is not None])
            rows = as_rows(self._model.features(pixels, batch_size=BATCH, progress=False))
            features = dict(zip(fresh, rows, strict=True))
        for item in batch:
            if item.reason:
                self._put_broken(item)
            else:
                self._put(item, features)
        self._uncommitted += len(batch)
        if self._uncommitted >= COMMIT_PICTURES or time.monotonic() > self._last_commit + COMMIT_SECONDS:
            self._writer.commit()
            self._uncommitted, self._last_commit = 0, time.monotonic()

    def _must_be_encoded(self, item: Examined) -> bool:
        return item.pixels is not None and item.digest not in self._source

    def _put(self, item: Examined, features: dict[bytes, Any]) -> None:
        before, source = self._known.get(item.path), self._source.get(item.digest)
        if before is not None and before.digest == item.digest and before.id not in self._suspect:  # only touched
            self._summary.unchanged += 1
            self._keep(before._replace(size=item.size, mtime_ns=item.mtime_ns, taken=item.taken), item.by_camera)
            return
        if before is None and (moved := self._take_abandoned(item.digest)) is not None:
            self._summary.moved += 1
            self._known.pop(moved.path, None)
            self._keep(
                moved._replace(path=item.path, size=item.size, mtime_ns=item.mtime_ns, taken=item.taken), item.by_camera
            )
            return
        if before is None:
            self._summary.added += 1
        else:
            self._summary.changed += 1
        row = self._writer.features.read(source.row) if source is not None else features[item.digest]
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
        self._keep(picture, item.by_camera)

    def _take_abandoned(self, digest: bytes) -> Picture | None:
        """A picture of that content whose file is gone, each only once."""
        if digest not in self._abandoned:
            self._abandoned[digest] = [picture for picture in self._before.get(digest, ()) if is_gone(picture.path)]
        return self._abandoned[digest].pop(0) if self._abandoned[digest] else None

    def _keep(self, picture: Picture, by_camera: bool) -> None:
        self._known[picture.path] = picture
        self._source[picture.digest] = picture
        self._writer.database.put(picture)
        self._writer.database.put_origin(picture.id, by_camera)

    def _put_broken(self, item: Examined) -> None:
        if item.is_out_of_reach and not is_gone(item.path):
            # For now, perhaps: nothing is concluded from that, and the next index tries again.
            self._summary.broken[item.path] = item.reason
            return
        before = self._known.pop(item.path, None)
        if before is not None:
            self._writer.database.remove(before.id)
        if is_gone(item.path):  # since it was found
            self._summary.removed += before is not None
            return
        self._summary.broken[item.path] = item.reason
        self._writer.database.put_broken(Broken(item.path, item.size, item.mtime_ns, item.reason))

    def _drop(self, scope: Scope) -> None:
        for path, picture in self._known.items():
            if scope.misses(path):
                self._summary.removed += 1
                self._writer.database.remove(picture.id)
        for path in self._writer.snapshot.broken:
            if scope.misses(path):
                self._writer.database.remove_broken(path)


def is_inside(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, or is it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def is_gone(path: str) -> bool:
    """Whether there is no such file. One that nobody may look at, or on a disk with errors, is not gone."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _nothing_in(path: str, skipped: Mapping[str, int]) -> str:
    if not os.path.isdir(path):  # noqa: PTH112
        return f"{path} is not a folder"
    others = "".join(f", {line}" for line in told_skipped(skipped))
    endings = ", ".join(sorted(picture_extensions()))
    return f"{path} has no picture in it{others}; file names that end in {endings} are taken for pictures"
