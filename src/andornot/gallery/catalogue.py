"""What is known of a gallery's pictures, so that a reader need not take all of it into memory.

The database stays the ledger; this is made of it, in `derived/`. Pictures are in the order of their ids, in chunks; a
chunk has a segment for each thing that is known, with a checksum that is looked at whenever the segment is read. A file
of segments only grows. What it means is said by a small index, a new one for each commit: it is named like the edition
that the ledger's state names, and written before the commit. So ledger and catalogue are always of the same moment.
"""

import json
import os
import re
import secrets
import weakref
import zlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol, TypeVar

import numpy as np

from ..files import write_atomically
from .errors import DamagedError
from .keys import ENTRY, Keys, keys_of
from .layout import DERIVED
from .records import Entry, Picture, Record

CHUNK: Final = 512
_FORMAT: Final = 1
# Chunks whose texts are kept, once read.
_KEPT: Final = 256
_NUMBERS: Final = {"ids": "<i8", "rows": "<i8", "taken": "<i8", "by_camera": "i1"}
_SEGMENTS: Final = (*_NUMBERS, "files", "folders", "names", "digests")
_CHUNK_ENTRY: Final = np.dtype(
    [
        ("first", "<i8"),
        ("count", "<i8"),
        ("earliest", "<i8"),
        ("latest", "<i8"),
        ("offset", "<i8"),
        ("sizes", "<u4", (len(_SEGMENTS),)),
        ("crcs", "<u4", (len(_SEGMENTS),)),
    ]
)
_NAME: Final = re.compile(r"records-[0-9a-f]{16}\.(bin|index)", re.ASCII)
# So much of a file may be in use no longer before it is written anew.
_SPARE_BYTES: Final = 2**20

Row = tuple[Record, int]
"""A record as it is in the database, and whether its date is the camera's: 1, 0, or -1 where that is not known."""
ReadRows = Callable[[int, int], Iterable[Row]]
"""The rows from one id to another, checked."""


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class StaleError(DamagedError):
    """The catalogue is damaged, and what it was made of is not there any more."""


class _Content(Protocol):
    """Where segments are: in a file, or in memory."""

    def read(self, offset: int, size: int) -> bytes: ...


class _InMemory:
    def __init__(self, content: bytearray) -> None:
        self.content = content

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self.content[offset : offset + size])


class _InFile:
    """Read piece by piece and never mapped: a file that is cut off would end the process, and what was read stays."""

    def __init__(self, file: Path) -> None:
        self._number = os.open(file, os.O_RDONLY)
        weakref.finalize(self, os.close, self._number)

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._number, size, offset)


class _Packed:
    """Some texts of any length, one after the other."""

    def __init__(self, content: bytes) -> None:
        count = int.from_bytes(content[:4], "little")
        ends = np.cumsum(np.frombuffer(content, "<u4", count, 4), dtype=np.int64) + 4 * (count + 1)
        self._content = content
        self._ends: list[int] = [4 * (count + 1), *ends.tolist()]

    def __iter__(self) -> Iterator[bytes]:
        return (self[place] for place in range(len(self._ends) - 1))

    def __getitem__(self, place: int) -> bytes:
        return self._content[self._ends[place] : self._ends[place + 1]]

    @property
    def size(self) -> int:
        """In bytes."""
        return self._ends[-1]

    @staticmethod
    def of(parts: Sequence[bytes]) -> bytes:
        lengths = np.fromiter(map(len, parts), "<u4", len(parts))
        return len(parts).to_bytes(4, "little") + lengths.tobytes() + b"".join(parts)


class _Files(NamedTuple):
    """Of each picture of a chunk."""

    sizes: np.ndarray
    times: np.ndarray
    features_crcs: np.ndarray
    record_crcs: np.ndarray


class _Folders(NamedTuple):
    """The folders of a chunk, each with the separator behind it, and the number of the one that a picture is in."""

    table: list[bytes]
    numbers: np.ndarray


class Catalogue:
    """One state of it. A position is a place in the order of ids."""

    def __init__(self, content: _Content, chunks: np.ndarray, keys: Keys, file: str = "", end: int = 0) -> None:
        """`file` is the name of the file of its segments, which end at `end`; none, if they are in memory."""
        self._content, self.chunks, self._keys = content, chunks, keys
        self.file, self.end = file, end
        self._starts = np.concatenate([[0], np.cumsum(chunks["count"])])
        self._first_ids: list[int] = chunks["first"].tolist()
        places = chunks[["count", "offset", "sizes", "crcs"]].tolist()
        self._entries: list[tuple[int, int, list[int], list[int]]] = places
        self._mended: dict[int, tuple[bytes, ...]] = {}
        # Who knows the ledger says how to read it again, if a segment is damaged.
        self.read_again: ReadRows | None = None
        self._ids_kept: dict[int, np.ndarray] = {}
        self._folders_kept: dict[int, _Folders] = {}
        self._texts_kept: dict[tuple[int, str], _Packed] = {}

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def is_wasteful(self) -> bool:
        """Whether most of the file is in use no longer."""
        used = int(self.chunks["sizes"].sum()) + self._keys.size
        return self.end > 2 * used + _SPARE_BYTES or len(self._keys) > 4 * len(self) + CHUNK

    @property
    def fingerprint(self) -> bytes:
        """Other bytes if anything is known otherwise."""
        parts = (self.chunks[name] for name in ("first", "count", "crcs"))
        return b"".join(part.tobytes() for part in parts)

    # --- whole columns ----------------------------------------------------------------------------------------------

    def column(self, name: str) -> np.ndarray:
        """Of all pictures, by position: their `ids`, `rows`, when they were `taken`, or `by_camera`."""
        result = np.empty(len(self), _NUMBERS[name])
        start = 0
        for number, (count, *_) in enumerate(self._entries):
            result[start : start + count] = self._numbers_of(number, name)
            start += count
        return result

    def rows_at(self, chosen: np.ndarray) -> np.ndarray:
        """The rows of some positions, given as `(n,)` bool; chunks with none of them are not read."""
        parts = [self._numbers_of(chunk, "rows")[chosen[place]] for chunk, place in self._with_any(chosen)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def taken_between(self, first: int, end: int) -> np.ndarray:
        """Which positions were taken then, `(n,)` bool; chunks of which all were, or none, are not read."""
        earliest, latest = self.chunks["earliest"], self.chunks["latest"]
        result = np.repeat((earliest >= first) & (latest < end), self.chunks["count"])
        partly = (latest >= first) & (earliest < end) & ~((earliest >= first) & (latest < end))
        for chunk in np.flatnonzero(partly).tolist():
            taken = self._numbers_of(chunk, "taken")
            result[self._starts[chunk] : self._starts[chunk + 1]] = (taken >= first) & (taken < end)
        return result

    def without_file_dates(self, chosen: np.ndarray) -> np.ndarray:
        """Those of some positions whose date is not only that of the file."""
        result = np.zeros(len(chosen), bool)
        for chunk, place in self._with_any(chosen):
            result[place] = chosen[place] & (self._numbers_of(chunk, "by_camera") != 0)
        return result

    def _with_any(self, chosen: np.ndarray) -> Iterator[tuple[int, slice]]:
        """The chunks with any of some positions, and where these are."""
        for chunk in np.flatnonzero(np.add.reduceat(chosen, self._starts[:-1])).tolist() if len(chosen) else []:
            yield chunk, slice(int(self._starts[chunk]), int(self._starts[chunk + 1]))

    def numbers_of(self, chunks: Iterable[int], name: str) -> np.ndarray:
        """The same of some chunks."""
        parts = [self._numbers_of(chunk, name) for chunk in chunks]
        return np.concatenate(parts) if parts else np.empty(0, _NUMBERS[name])

    def each_folder(self) -> Iterator[_Folders]:
        """The folders of each chunk."""
        return map(self._folders_of, range(len(self.chunks)))

    def paths(self) -> Iterator[bytes]:
        """Those of all pictures."""
        for chunk in range(len(self.chunks)):
            table, numbers = self._folders_of(chunk)
            names = _Packed(self.segment(chunk, "names"))
            for place, number in enumerate(numbers.tolist()):
                yield table[number] + names[place]

    def entries(self) -> Iterator[Entry]:
        """All that is known of all pictures."""
        for chunk in range(len(self.chunks)):
            table, folders = self._folders_of(chunk)
            columns = [self._numbers_of(chunk, name).tolist() for name in _NUMBERS]
            texts = [_Packed(self.segment(chunk, name)) for name in ("names", "digests")]
            files = [part.tolist() for part in self._files_of(chunk)]
            for identity, row, taken, by_camera, size, time, features_crc, _, folder, name, digest in zip(
                *columns, *files, folders.tolist(), *texts, strict=True
            ):
                path = os.fsdecode(table[folder] + name)
                yield Entry(Picture(identity, path, size, time, digest, taken, row, features_crc), by_camera)

    def other_chunks(self, other: "Catalogue") -> list[int]:
        """The chunks that another catalogue of the same file has not; the others are the same in both."""
        entries = np.dtype((np.void, _CHUNK_ENTRY.itemsize))
        theirs = set(other.chunks.view(entries).tolist())
        return [chunk for chunk, entry in enumerate(self.chunks.view(entries).tolist()) if entry not in theirs]

    # --- single pictures --------------------------------------------------------------------------------------------

    def position_of(self, identity: int) -> int | None:
        """The position of a picture by its id; None if there is no such picture."""
        chunk = bisect_right(self._first_ids, identity) - 1
        if chunk < 0:
            return None
        ids = self._ids_of(chunk)
        place = int(np.searchsorted(ids, identity))
        return int(self._starts[chunk]) + place if place < len(ids) and ids[place] == identity else None

    def id_at(self, position: int) -> int:
        """The id of the picture at a position."""
        chunk, place = self._place(position)
        return int(self._ids_of(chunk)[place])

    def path_at(self, position: int) -> bytes:
        """Its path."""
        chunk, place = self._place(position)
        table, numbers = self._folders_of(chunk)
        return table[int(numbers[place])] + self._texts_of(chunk, "names")[place]

    def entry_at(self, position: int) -> Entry:
        """All that is known of it."""
        chunk, place = self._place(position)
        files = self._files_of(chunk)
        picture = Picture(
            self.id_at(position),
            os.fsdecode(self.path_at(position)),
            int(files.sizes[place]),
            int(files.times[place]),
            self._texts_of(chunk, "digests")[place],
            int(self._numbers_of(chunk, "taken")[place]),
            int(self._numbers_of(chunk, "rows")[place]),
            int(files.features_crcs[place]),
        )
        return Entry(picture, int(self._numbers_of(chunk, "by_camera")[place]))

    def features_crcs(self, ids: np.ndarray) -> np.ndarray:
        """The checksums of the features of pictures that there are, by their ids."""
        return self._gathered(ids, lambda chunk: self._files_of(chunk).features_crcs)[0]

    def rows_of(self, ids: np.ndarray) -> np.ndarray:
        """The rows of pictures by their ids, without those that there are not."""
        rows, there = self._gathered(ids, lambda chunk: self._numbers_of(chunk, "rows"))
        return np.asarray(rows[there])

    def _gathered(self, ids: np.ndarray, of_chunk: Callable[[int], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """A number of each of some pictures, and whether it is there."""
        result, there = np.zeros(len(ids), np.int64), np.zeros(len(ids), bool)
        chunks = np.searchsorted(self.chunks["first"], ids, "right") - 1
        for chunk in np.unique(chunks[chunks >= 0]).tolist():
            chosen, known = np.flatnonzero(chunks == chunk), self._ids_of(chunk)
            places = np.minimum(np.searchsorted(known, ids[chosen]), len(known) - 1)
            there[chosen] = known[places] == ids[chosen]
            result[chosen] = of_chunk(chunk)[places]
        return result, there

    def called(self, name: bytes) -> Iterator[Entry]:
        """The pictures whose files have that name, in the order of their ids."""
        return self._with(keys_of(name, b"")[0], "names", name)

    def with_digest(self, digest: bytes) -> Iterator[Entry]:
        """Those with that content."""
        return self._with(keys_of(b"", digest)[1], "digests", digest)

    def is_only_one_called(self, name: bytes) -> bool:
        """Whether no more than one file has that name."""
        ids = self._keys.find(keys_of(name, b"")[0], self._content.read)
        return (ids is not None and len(ids) < 2) or len(list(islice(self.called(name), 2))) < 2

    def _with(self, key: int, segment: str, wanted: bytes) -> Iterator[Entry]:
        ids = self._keys.find(key, self._content.read)
        if ids is None:  # damaged: then everybody is looked at, until the next index makes the keys again
            for chunk in range(len(self.chunks)):
                texts = enumerate([*_Packed(self.segment(chunk, segment))], int(self._starts[chunk]))
                yield from (self.entry_at(position) for position, text in texts if text == wanted)
            return
        for position in map(self.position_of, ids.tolist()):
            if position is None:
                continue
            chunk, place = self._place(position)
            if self._texts_of(chunk, segment)[place] == wanted:  # it may have been so once, or have the same key only
                yield self.entry_at(position)

    def _place(self, position: int) -> tuple[int, int]:
        if not 0 <= position < len(self):
            raise IndexError(position)
        chunk = int(np.searchsorted(self._starts, position, "right")) - 1
        return chunk, position - int(self._starts[chunk])

    # --- segments ---------------------------------------------------------------------------------------------------

    def segment(self, chunk: int, name: str) -> bytes:
        """One thing that is known of the pictures of a chunk, as it was written."""
        number = _SEGMENTS.index(name)
        if chunk in self._mended:
            return self._mended[chunk][number]
        _, offset, sizes, crcs = self._entries[chunk]
        content = self._content.read(offset + sum(sizes[:number]), sizes[number])
        if len(content) != sizes[number] or zlib.crc32(content) != crcs[number]:
            self._mended[chunk] = self._mend(chunk)
            return self._mended[chunk][number]
        return content

    def is_whole(self) -> bool:
        """Whether nothing of it is damaged."""
        for _, offset, sizes, crcs in self._entries:
            block = self._content.read(offset, sum(sizes))
            start = 0
            for size, crc in zip(sizes, crcs, strict=True):
                if zlib.crc32(block[start : start + size]) != crc:
                    return False
                start += size
        return self._keys.is_whole(self._content.read)

    def agrees(self, chunk: int, rows: Sequence[Row]) -> bool:
        """Whether a chunk has just these rows, by the checksums of their records."""
        if chunk in self._mended:
            return False
        ids = [record[0] for record, _ in rows]
        crcs = [record[-1] for record, _ in rows]
        return (
            np.array_equal(self._numbers_of(chunk, "ids"), ids)
            and np.array_equal(self._files_of(chunk).record_crcs, crcs)
            and np.array_equal(self._numbers_of(chunk, "by_camera"), [by_camera for _, by_camera in rows])
        )

    def _mend(self, chunk: int) -> tuple[bytes, ...]:
        if self.read_again is None:
            raise StaleError(f"{self.file} in {DERIVED} is damaged")
        first, count = self._first_ids[chunk], self._entries[chunk][0]
        rows = list(islice(self.read_again(first, self._last_id(chunk)), count + 1))
        if len(rows) != count or rows[0][0][0] != first:
            raise StaleError(f"{self.file} in {DERIVED} is damaged")
        return _segments(rows)

    def _last_id(self, chunk: int) -> int:
        return self._first_ids[chunk + 1] - 1 if chunk + 1 < len(self._first_ids) else 2**63 - 1

    def _numbers_of(self, chunk: int, name: str) -> np.ndarray:
        return np.frombuffer(self.segment(chunk, name), _NUMBERS[name])

    def _files_of(self, chunk: int) -> _Files:
        return _Files(*np.frombuffer(self.segment(chunk, "files"), "<i8").reshape(4, -1))

    def _ids_of(self, chunk: int) -> np.ndarray:
        return _kept(self._ids_kept, chunk, lambda: self._numbers_of(chunk, "ids"))

    def _texts_of(self, chunk: int, name: str) -> _Packed:
        return _kept(self._texts_kept, (chunk, name), lambda: _Packed(self.segment(chunk, name)))

    def _folders_of(self, chunk: int) -> _Folders:
        def read() -> _Folders:
            content = self.segment(chunk, "folders")
            table = _Packed(content)
            return _Folders([*table], np.frombuffer(content, "<u2", offset=table.size))

        return _kept(self._folders_kept, chunk, read)

    # --- changes ----------------------------------------------------------------------------------------------------

    def changed(self, ids: Collection[int], read: ReadRows, sink: "Sink") -> "Catalogue":
        """The state after some pictures were added, changed or removed: the chunks around them are written anew."""
        ascending = np.array(sorted(ids), np.int64)
        touched = np.unique(np.searchsorted(self.chunks["first"], ascending, "right") - 1).clip(0)
        if not len(self.chunks):
            return Catalogue._written(read(-(2**63), 2**63 - 1), sink)
        parts: list[np.ndarray] = []
        fresh: list[np.ndarray] = []
        kept, wanted = 0, set(ids)
        for group in np.split(touched, np.flatnonzero(np.diff(touched) > 1) + 1):
            if not len(group):
                continue
            start, end = int(group[0]), int(group[-1])
            first = self._first_ids[start] if start else -(2**63)
            made, found = _chunks(read(first, self._last_id(end)), sink, wanted)
            parts += [self.chunks[kept:start], made]
            fresh.append(found)
            kept = end + 1
        chunks = np.concatenate([*parts, self.chunks[kept:]])
        added = np.concatenate(fresh) if fresh else np.empty(0, ENTRY)
        keys = self._keys.with_more(added, self._content.read, sink.put)
        return Catalogue(sink.content, chunks, keys, sink.file, sink.end)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Catalogue":
        """In memory."""
        return cls._written(rows, Sink())

    @classmethod
    def _written(cls, rows: Iterable[Row], sink: "Sink") -> "Catalogue":
        chunks, found = _chunks(rows, sink, None)
        keys = Keys.none().with_more(found, sink.content.read, sink.put)
        return cls(sink.content, chunks, keys, sink.file, sink.end)

    # --- on disk ----------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: Path, edition: int) -> "Catalogue | None":
        """The one of an edition of the ledger; None if there is none, or if its index is damaged."""
        # What is not as it was written may be anything.
        with suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            crc, head, body = (folder / DERIVED / _index_name(edition)).read_bytes().split(b"\n", 2)
            if int(crc, 16) != zlib.crc32(head + b"\n" + body):
                return None
            about = json.loads(head)
            if about["format"] != _FORMAT or about["edition"] != edition:
                return None
            size = about["chunks"] * _CHUNK_ENTRY.itemsize
            chunks = np.frombuffer(body[:size], _CHUNK_ENTRY)
            keys = Keys.of_bytes(body[size:], about["runs"])
            content = _InFile(folder / DERIVED / about["file"])
            return cls(content, chunks, keys, about["file"], about["end"])
        return None

    def store(self, folder: Path, edition: int = 0) -> int:
        """Keeps on disk what is in memory; the edition that the ledger must name. Only for who holds the lock."""
        assert isinstance(self._content, _InMemory)
        (folder / DERIVED).mkdir(exist_ok=True)
        file = folder / DERIVED / f"records-{secrets.token_hex(8)}.bin"
        try:
            with file.open("xb") as opened:
                opened.write(self._content.content)
                os.fsync(opened.fileno())
            stored = Catalogue(_InFile(file), self.chunks, self._keys, file.name, len(self._content.content))
            edition = stored.write_index(folder, edition)
        except OSError:
            file.unlink(missing_ok=True)
            raise
        self._content, self.file, self.end = stored._content, stored.file, stored.end
        return edition

    def write_index(self, folder: Path, edition: int = 0) -> int:
        """Says what the file means now; the edition that the ledger must name: a new one, unless it is given."""
        edition = edition or secrets.randbits(63) or 1
        about = {
            "format": _FORMAT,
            "edition": edition,
            "file": self.file,
            "end": self.end,
            "chunks": len(self.chunks),
            "runs": self._keys.pages_of_runs,
        }
        content = json.dumps(about).encode() + b"\n" + self.chunks.tobytes() + self._keys.to_bytes()
        content = b"%08x\n" % zlib.crc32(content) + content
        write_atomically(folder / DERIVED / _index_name(edition), lambda partial: partial.write_bytes(content))
        return edition


class Sink:
    """Where segments are written: behind those of a catalogue in its file, or else in memory."""

    def __init__(self, folder: Path | None = None, catalogue: Catalogue | None = None) -> None:
        self.file, self.end = "", 0
        self._opened: BinaryIO | None = None
        memory = bytearray()
        self.content: _Content = _InMemory(memory)
        self._memory = memory
        if folder is not None and catalogue is not None:
            self.file, self.end = catalogue.file, catalogue.end
            self._opened = (folder / DERIVED / self.file).open("rb+")
            self._opened.seek(self.end)
            self.content = _InFile(folder / DERIVED / self.file)

    def put(self, content: bytes) -> int:
        """Where it begins."""
        offset, self.end = self.end, self.end + len(content)
        if self._opened is None:
            self._memory += content
        else:
            self._opened.write(content)
        return offset

    def close(self) -> None:
        """Everything is on the disk then."""
        if self._opened is not None:
            with self._opened:
                self._opened.flush()
                os.fsync(self._opened.fileno())


def remove_others(folder: Path, needed: Collection[int]) -> None:
    """Removes what was written for other editions than these, and is needed no more."""
    names = {_index_name(edition) for edition in needed}
    for name in tuple(names):
        with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
            names.add(json.loads((folder / DERIVED / name).read_bytes().split(b"\n", 2)[1])["file"])
    with suppress(OSError):
        for child in (folder / DERIVED).iterdir():
            if _NAME.fullmatch(child.name) and child.name not in names:
                child.unlink()


def _kept(cache: dict[_Key, _Value], key: _Key, make: Callable[[], _Value]) -> _Value:
    """What was made for a key. Not `lru_cache`, which would keep files open until Python looks for garbage."""
    value = cache.get(key)
    if value is None:
        if len(cache) >= _KEPT:
            cache.clear()
        value = cache[key] = make()
    return value


def _index_name(edition: int) -> str:
    return f"records-{edition:016x}.index"


def _chunks(rows: Iterable[Row], sink: Sink, wanted: set[int] | None) -> tuple[np.ndarray, np.ndarray]:
    """Writes rows in chunks; what an index says of these, and the keys of the pictures that are wanted."""
    entries = []
    found: list[np.ndarray] = []
    ordered = iter(rows)
    while part := list(islice(ordered, CHUNK)):
        segments = _segments(part)
        offset = sink.put(b"".join(segments))
        sizes, crcs = [*map(len, segments)], [*map(zlib.crc32, segments)]
        taken = [record[5] for record, _ in part]
        entries.append((part[0][0][0], len(part), min(taken), max(taken), offset, sizes, crcs))
        keyed = [record for record, _ in part if wanted is None or record[0] in wanted]
        found.append(_keys(keyed))
    return np.array(entries, _CHUNK_ENTRY), np.concatenate(found) if found else np.empty(0, ENTRY)


def _keys(records: Sequence[Record]) -> np.ndarray:
    result = np.empty(2 * len(records), ENTRY)
    pairs = [keys_of(record[1].rpartition(b"/")[2], record[4]) for record in records]
    result["key"] = np.array(pairs, np.uint32).reshape(-1)
    result["id"] = np.repeat(np.fromiter((record[0] for record in records), np.int64, len(records)), 2)
    return result


def _segments(rows: Sequence[Row]) -> tuple[bytes, ...]:
    """What is known of some pictures, in the order of `_SEGMENTS`."""
    ids, paths, sizes, times, digests, taken, places, features, crcs = zip(*(record for record, _ in rows), strict=True)
    parted = [path.rpartition(b"/") for path in paths]
    folders = [head + separator for head, separator, _ in parted]
    table = {folder: number for number, folder in enumerate(dict.fromkeys(folders))}
    return (
        np.array(ids, "<i8").tobytes(),
        np.array(places, "<i8").tobytes(),
        np.array(taken, "<i8").tobytes(),
        np.fromiter((by_camera for _, by_camera in rows), "i1", len(rows)).tobytes(),
        np.array([sizes, times, features, crcs], "<i8").tobytes(),
        _Packed.of([*table]) + np.fromiter(map(table.__getitem__, folders), "<u2", len(rows)).tobytes(),
        _Packed.of([name for *_, name in parted]),
        _Packed.of(digests),
    )
