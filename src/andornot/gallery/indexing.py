"""Indexing: new files are encoded, moved ones are recognised by their content, and those that are gone are dropped."""

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple

from ..data.sources.folder import skipped_around
from ..model import Model
from ..progress import track
from .encoding import Encode, EncodedBatch, Extracted, encode_files
from .errors import GalleryError
from .projections import whole_codes
from .records import ImageRecord, UnreadableFile, file_stamp, is_inside
from .rows import image_rows
from .scanning import ScannedFile
from .scope import Scope, find_files, is_gone
from .writing import Writer

# A process that is killed loses the work of at most so much time.
COMMIT_SECONDS: Final = 10.0


@dataclass
class Summary:
    """What an `index` did: numbers of images; `broken` has the reason for each file that could not be read.

    `skipped` counts the files of kinds that are not supported: "video", or the endings of their names.
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
        """Whether anything has changed."""
        return bool(self.added or self.changed or self.moved or self.removed)


class _NewRow(NamedTuple):
    """A row to be added: its record, and the stored image whose content it has; None for a content of the batch."""

    record: ImageRecord
    source: int | None


class Indexer:
    """Brings a gallery up to date with the files in scope.

    `suspect`: ids of images whose rows are damaged, to be encoded whatever their files look like. `encode` says where
    that is done.
    """

    def __init__(
        self, writer: Writer, model: Model, scope: Scope, suspect: Iterable[int] = (), encode: Encode = encode_files
    ) -> None:
        self._writer, self._model, self._scope, self._encode = writer, model, scope, encode
        self._suspect = set(suspect)
        self._known = {record.path: record for record in writer.table.records()}
        # By digest: the images that have that content. Those whose files are gone may be found under other names.
        self._with_content: dict[bytes, list[ImageRecord]] = {}
        for record in self._known.values():
            if record.id not in self._suspect:
                self._with_content.setdefault(record.digest, []).append(record)
        self._vanished: set[str] = set()
        self._summary = Summary(skipped=scope.skipped)
        self._last_commit = time.monotonic()

    def run(self, progress: bool | None) -> Summary:
        """Index, with a commit every few seconds."""
        new = [path for path in self._scope.found if not self._is_unchanged(path)]
        self._model.reserve(len(new))
        with track("indexing", len(new), shown=progress) as bar:
            for batch in self._encode(new, self._model, _KnownContents(self._with_content), self._identify):
                self._take(batch)
                bar.note(**({"broken": len(self._summary.broken)} if self._summary.broken else {}))
                bar.update(len(batch.files))
        self._drop_missing()
        self._writer.commit()
        return self._summary

    def _identify(self, path: str) -> int:
        """Return the id of a path that is known, or a new one."""
        record = self._known.get(path)
        return self._writer.new_id() if record is None else record.id

    def _is_unchanged(self, path: str) -> bool:
        record, unreadable = self._known.get(path), self._writer.unreadable.get(path)
        if (record is None and unreadable is None) or (record is not None and record.id in self._suspect):
            return False
        try:
            stamp = file_stamp(os.stat(path))  # noqa: PTH116
        except OSError:
            return False
        if record is not None and stamp == (record.size, record.mtime_ns):
            self._summary.unchanged += 1
            return True
        if unreadable is not None and stamp == unreadable[1:3] and unreadable.code != "missing-package":
            self._summary.broken[path] = unreadable.reason
            return True
        return False

    def _take(self, batch: EncodedBatch) -> None:
        """Make some files part of the gallery."""
        fresh = set(batch.digests)
        written = {} if batch.written is None else batch.written.ids
        rows: dict[int, _NewRow] = {}
        replaced: set[int] = set()
        outdated: list[ImageRecord] = []
        again: list[str] = []

        def put(item: ScannedFile, identity: int, source: ImageRecord | None) -> None:
            """Add a row with the content of a known image, or of the batch. Of two for one id, the later counts."""
            record = _record(item, identity, source)
            self._remember(record)
            if item.path in written:
                return
            copied = None if item.digest in fresh or source is None else _stored_id(source, rows)
            rows[identity] = _NewRow(record, copied)

        for item in batch.files:
            if item.reason:
                self._put_unreadable(item)
                continue
            self._writer.unreadable.pop(item.path, None)
            before = self._known.get(item.path)
            if before is not None and before.digest == item.digest and before.id not in self._suspect:
                self._summary.unchanged += 1
                if _record(item, before.id, before) != before:
                    replaced.add(before.id)
                    self._forget(before)
                    put(item, before.id, before)
                continue
            moved = None if before is not None or item.path in written else self._abandoned(item.digest)
            if moved is not None:
                self._summary.moved += 1
                replaced.add(moved.id)
                self._forget(moved)
                put(item, moved.id, moved)
                continue
            source = next(iter(self._with_content.get(item.digest, ())), None)
            if source is None and item.digest not in fresh:
                again.append(item.path)  # its content was known when it was scanned, and is not any more
                continue
            self._summary.added += before is None
            self._summary.changed += before is not None
            if before is not None:
                replaced.add(before.id)
                outdated.append(before)  # other files of this batch may still be copies of it
            put(item, written.get(item.path) or self._identify(item.path), source)
        for record in outdated:
            self._forget_content(record)
        # Copies first: the rows that they are copied from may be replaced.
        copies = [row for row in rows.values() if row.source is not None]
        self._put_copies(copies, replaced)
        if batch.written is not None:
            self._writer.put_fragments(batch.written.fragments, written.values(), replaced - rows.keys())
        places = {digest: place for place, digest in enumerate(batch.digests)}
        self._put_fresh(
            [(row.record, places[row.record.digest]) for row in rows.values() if row.source is None],
            batch.extracted,
            replaced,
        )
        for more in encode_files(again, self._model, frozenset()):
            self._take(more)
        self._commit_now_and_then()

    def _put_copies(self, copies: list[_NewRow], replaced: set[int]) -> None:
        sources = [row.source for row in copies if row.source is not None]
        if sources:
            records = [row.record for row in copies]
            self._writer.put_copies(sources, records, replaced & {record.id for record in records})

    def _put_fresh(self, fresh: list[tuple[ImageRecord, int]], extracted: Extracted | None, replaced: set[int]) -> None:
        if not fresh or extracted is None:
            return
        part = extracted.select([place for _, place in fresh])
        components, column = self._writer.components(), self._writer.state.codes
        codes = None if components is None else (column, whole_codes(self._model, components, part.activations))
        records = [record for record, _ in fresh]
        rows = image_rows(records, part, self._writer.basis(self._model), codes)
        self._writer.put(rows, replaced & {record.id for record in records})

    def _commit_now_and_then(self) -> None:
        if self._writer.needs_basis:
            self._writer.fit_basis(self._model)
            self._last_commit = time.monotonic()
        elif time.monotonic() > self._last_commit + COMMIT_SECONDS:
            self._writer.commit()
            self._last_commit = time.monotonic()

    def _abandoned(self, digest: bytes) -> ImageRecord | None:
        """Return an image of that content whose file is gone, or has another name now."""
        return next(
            (
                record
                for record in self._with_content.get(digest, ())
                if self._known.get(record.path) == record and (is_gone(record.path) or self._scope.misses(record.path))
            ),
            None,
        )

    def _remember(self, record: ImageRecord) -> None:
        self._known[record.path] = record
        self._with_content.setdefault(record.digest, []).append(record)

    def _forget(self, record: ImageRecord) -> None:
        self._known.pop(record.path, None)
        self._forget_content(record)

    def _forget_content(self, record: ImageRecord) -> None:
        alike = self._with_content.get(record.digest, [])
        if record in alike:
            alike.remove(record)
        if not alike:
            self._with_content.pop(record.digest, None)

    def _put_unreadable(self, item: ScannedFile) -> None:
        if is_gone(item.path):  # since it was found; perhaps it was moved, and will be found elsewhere
            self._vanished.add(item.path)
            return
        self._summary.broken[item.path] = item.reason
        if item.is_out_of_reach:  # for now, perhaps: the next index tries again
            return
        if (before := self._known.get(item.path)) is not None:
            self._forget(before)
            self._writer.remove(before.id)
        self._writer.unreadable[item.path] = UnreadableFile(*item[:3], item.reason, item.code)

    def _drop_missing(self) -> None:
        for path, record in list(self._known.items()):
            if self._scope.misses(path) or (path in self._vanished and is_gone(path)):
                self._summary.removed += 1
                self._forget(record)
                self._writer.remove(record.id)
        for path in list(self._writer.unreadable):
            if self._scope.misses(path) or (path in self._vanished and is_gone(path)):
                del self._writer.unreadable[path]


def index_paths(
    writer: Writer, model: Model, paths: list[str] | None, encode: Encode, prune: bool, progress: bool | None
) -> Summary:
    """Bring a gallery up to date with some folders and files, or with all that were ever added, and tidy it up."""
    folders = writer.state.folders
    known = [record.path for record in writer.table.records()]
    if paths is None:
        loose = (path for path in known if not any(is_inside(path, folder) for folder in folders))
        paths = [*folders, *loose]
    scope = find_files(paths, known, prune)
    writer.save_state(folders=_remembered(folders, scope.folders, prune))
    summary = Indexer(writer, model, scope, encode=encode).run(progress)
    _finish(writer, model, summary)
    return summary


def _finish(writer: Writer, model: Model, summary: Summary) -> None:
    """Do what follows when all files were read: the first calibration, codes, and tidying up."""
    is_first = writer.state.calibrated_on == 0
    if is_first:
        if not len(writer.table):
            path, reason = next(iter(summary.broken.items()), ("nothing", "there is no image"))
            raise GalleryError(f"none of the {len(summary.broken):,} images can be read; {path}: {reason}")
        model = writer.calibrate(model)
    writer.encode_regions(model)
    writer.refit(model)
    writer.finish(first=is_first)


def _remembered(known: Iterable[str], folders: Iterable[str], prune: bool) -> tuple[str, ...]:
    """Return the folders that the gallery remembers, after some more were scanned."""
    remembered = set(known)
    for folder in folders:
        if os.path.isdir(folder) and skipped_around(os.path.realpath(folder)) is None:  # noqa: PTH112
            remembered.add(folder)
        elif prune:
            remembered.discard(folder)
    return tuple(sorted(remembered))


class _KnownContents(Collection[bytes]):
    """The digests of contents that are stored, as they are at any moment."""

    def __init__(self, with_content: dict[bytes, list[ImageRecord]]) -> None:
        self._with_content = with_content

    def __contains__(self, digest: object) -> bool:
        return digest in self._with_content

    def __iter__(self) -> Iterator[bytes]:
        return iter(list(self._with_content))

    def __len__(self) -> int:
        return len(self._with_content)


def _stored_id(record: ImageRecord, rows: Mapping[int, _NewRow]) -> int | None:
    """Return the id of a stored row with the content of an image, whose own row may be among those to be added."""
    new = rows.get(record.id)
    return record.id if new is None or new.record.digest != record.digest else new.source


def _record(item: ScannedFile, identity: int, source: ImageRecord | None) -> ImageRecord:
    """Return the record of a file; the size of an image that was not decoded is that of one with the same content."""
    width, height = (item.width, item.height) if item.width or source is None else (source.width, source.height)
    return ImageRecord(
        identity, item.path, item.size, item.mtime_ns, item.digest, item.taken, item.by_camera, width, height
    )
