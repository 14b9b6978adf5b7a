"""Indexing: encode new files, recognise moved ones by their content, and remove missing ones."""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple

from ..data.sources.folder import skipped_around
from ..model import Model
from ..progress import track
from .encoding import Encode, EncodedBatch, Extracted, encode_files
from .errors import GalleryError
from .records import ImageRecord, UnreadableFile, file_stamp, is_inside
from .rows import encoded_rows
from .scanning import ScannedFile, Scope, find_files, is_gone
from .writing import Writer

# A killed process loses at most this many seconds of work.
COMMIT_SECONDS: Final = 10.0


@dataclass
class Summary:
    """The result of indexing, as numbers of images; `broken` has the reason for each file that could not be read.

    `skipped` counts unsupported files by kind: "video", or the file extension.
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
        """Whether anything changed."""
        return bool(self.added or self.changed or self.moved or self.removed)


class _NewRow(NamedTuple):
    """A row to add: its record, and the stored image with the same content; None for content of this batch."""

    record: ImageRecord
    source: int | None


class Indexer:
    """Updates a gallery from the files in scope.

    `suspect`: ids of images with damaged rows, which are re-encoded even if their files did not change. `encode` runs
    the encoding, here or on a cluster.
    """

    def __init__(
        self, writer: Writer, model: Model, scope: Scope, suspect: Iterable[int] = (), encode: Encode = encode_files
    ) -> None:
        self._writer, self._model, self._scope, self._encode = writer, model, scope, encode
        self._suspect = set(suspect)
        self._known = {record.path: record for record in writer.table.records()}
        # Images by digest, to copy the features of known contents and to recognise moved files.
        self._with_content: dict[bytes, list[ImageRecord]] = {}
        for record in self._known.values():
            if record.id not in self._suspect:
                self._with_content.setdefault(record.digest, []).append(record)
        self._vanished: set[str] = set()
        self._summary = Summary(skipped=scope.skipped)
        self._last_commit = time.monotonic()

    def run(self, progress: bool | None) -> Summary:
        """Index all files, with a commit every few seconds."""
        new = [path for path in self._scope.found if not self._is_unchanged(path)]
        self._model.reserve(len(new))
        with track("indexing", len(new), shown=progress) as bar:
            for batch in self._encode(new, self._model, self._with_content.keys(), self._identify):
                self._take(batch)
                bar.note(**({"broken": len(self._summary.broken)} if self._summary.broken else {}))
                bar.update(len(batch.files))
        self._drop_missing()
        self._writer.commit()
        return self._summary

    def _identify(self, path: str) -> int:
        """Return the id of a known path, or a new id."""
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
        """Add a batch of files to the gallery."""
        fresh = set(batch.digests)
        written = {} if batch.written is None else batch.written.ids
        rows: dict[int, _NewRow] = {}
        replaced: set[int] = set()
        outdated: list[ImageRecord] = []
        again: list[str] = []

        def put(item: ScannedFile, identity: int, source: ImageRecord | None) -> None:
            """Add a row with the content of a known image or of the batch; the last row for an id wins."""
            record = item.record(identity, source)
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
                if item.record(before.id, before) != before:
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
                again.append(item.path)  # its content was known when it was scanned, but is not any more
                continue
            self._summary.added += before is None
            self._summary.changed += before is not None
            if before is not None:
                replaced.add(before.id)
                outdated.append(before)  # other files of this batch may still be copies of it
            put(item, written.get(item.path) or self._identify(item.path), source)
        for record in outdated:
            self._forget_content(record)
        # Copies first, because their source rows may be replaced below.
        copies = {row.record: row.source for row in rows.values() if row.source is not None}
        if copies:
            replaced_too = replaced & {record.id for record in copies}
            self._writer.put_copies([*copies.values()], [*copies], replaced_too)
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

    def _put_fresh(self, fresh: list[tuple[ImageRecord, int]], extracted: Extracted | None, replaced: set[int]) -> None:
        if not fresh or extracted is None:
            return
        part = extracted.select([place for _, place in fresh])
        records = [record for record, _ in fresh]
        rows = encoded_rows(self._writer.storage, self._writer.state, self._model, records, part)
        self._writer.put(rows, replaced & {record.id for record in records})

    def _commit_now_and_then(self) -> None:
        if self._writer.needs_basis:
            self._writer.fit_basis(self._model)
            self._last_commit = time.monotonic()
        elif time.monotonic() > self._last_commit + COMMIT_SECONDS:
            self._writer.commit()
            self._last_commit = time.monotonic()

    def _abandoned(self, digest: bytes) -> ImageRecord | None:
        """Return an image with this content whose file is missing or was renamed."""
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
        if is_gone(item.path):  # deleted or moved since it was found
            self._vanished.add(item.path)
            return
        self._summary.broken[item.path] = item.reason
        if item.is_out_of_reach:  # perhaps temporarily, so the next index retries it
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
    """Update a gallery from some folders and files, or from all that were ever added, and clean up."""
    folders = writer.state.folders
    known = [record.path for record in writer.table.records()]
    if paths is None:
        loose = (path for path in known if not any(is_inside(path, folder) for folder in folders))
        paths = [*folders, *loose]
    scope = find_files(paths, known, prune)
    writer.save_state(folders=_remembered(folders, scope.folders, prune))
    summary = Indexer(writer, model, scope, encode=encode).run(progress)
    is_first = writer.state.calibrated_on == 0
    if is_first:
        if not len(writer.table):
            path, reason = next(iter(summary.broken.items()), ("nothing", "there is no image"))
            raise GalleryError(f"none of the {len(summary.broken):,} images can be read; {path}: {reason}")
        model = writer.calibrate(model)
    writer.encode_regions(model)
    writer.refit(model)
    writer.finish(first=is_first)
    return summary


def _remembered(known: Iterable[str], folders: Iterable[str], prune: bool) -> tuple[str, ...]:
    """Return the folders to remember after scanning `folders`."""
    remembered = set(known)
    for folder in folders:
        if os.path.isdir(folder) and skipped_around(os.path.realpath(folder)) is None:  # noqa: PTH112
            remembered.add(folder)
        elif prune:
            remembered.discard(folder)
    return tuple(sorted(remembered))


def _stored_id(record: ImageRecord, rows: Mapping[int, _NewRow]) -> int | None:
    """Return the id of a stored row with the image's content; the image's own row may not be stored yet."""
    new = rows.get(record.id)
    return record.id if new is None or new.record.digest != record.digest else new.source
