"""Which files an `index` looks at. A file is one image, however many names links give it."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from ..data.formats import taken_for_images
from ..data.sources.folder import find_images, real_path, skipped_around
from .errors import GalleryError
from .records import StrPath, absolute, is_inside


class Scope:
    """Files that were found now, and those that the gallery has from the same places.

    `skipped` counts those of no supported kind: "video", or the endings of their names.
    """

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
        self._real_folders: dict[str, str] = {}

    def misses(self, path: str) -> bool:
        """Whether a file should have been found and is gone, or was found under another name."""
        if path in self._found:
            return False
        if real_path(path, self._real_folders) in self._real_found:
            return True
        if not self._covers(path):
            return False
        return is_gone(path) or os.path.realpath(path) in self._real_found or skipped_around(path) is not None

    @cached_property
    def _real_found(self) -> set[str]:
        return {real_path(path, self._real_folders) for path in self.found}

    def _covers(self, path: str) -> bool:
        return path in self._files or any(is_inside(path, folder) for folder in self.folders)


def find_files(paths: Sequence[str], known: Iterable[str], prune: bool) -> Scope:
    """Find the images in folders and files. `known` are the paths in the gallery.

    A folder that has nothing of what the gallery knows from there is more likely a disk that is not mounted than one
    that was emptied: an error, unless `prune`.
    """
    in_gallery = set(known)
    folders: list[str] = []
    files: list[str] = []
    found: list[str] = []
    skipped: Counter[str] = Counter()
    for path in paths:
        around = skipped_around(os.path.realpath(path))
        if around is not None and path not in in_gallery and not prune:
            raise GalleryError(
                f"{path} is in the folder of the gallery {around}, where no images of yours should be: "
                "move them elsewhere, and give that folder"
            )
        if os.path.isfile(path) and around is None:  # noqa: PTH113
            files.append(path)
            continue
        folders.append(path)
        is_folder = os.path.isdir(path)  # noqa: PTH112
        images = find_images(Path(path), skipped=skipped) if is_folder and around is None else []
        found += images
        if images or prune or path in in_gallery:
            continue
        if inside := sum(is_inside(other, path) for other in in_gallery):
            raise GalleryError(
                f"{path} is {'empty' if is_folder else 'not there'}, and the gallery has {inside:,} images from it: "
                "is a disk not mounted? --prune drops them"
            )
        raise GalleryError(_nothing_in(path, skipped))
    return Scope(folders, files, set(found) - _other_names(set(found), in_gallery), skipped)


def check_folders(places: Iterable[StrPath]) -> None:
    """Raise a GalleryError if a folder has no image; the search stops at the first one."""
    for path in (str(absolute(place)) for place in places):
        is_own = skipped_around(os.path.realpath(path)) is None
        is_file, is_folder = os.path.isfile(path), os.path.isdir(path)  # noqa: PTH112, PTH113
        if not (is_own and (is_file or (is_folder and find_images(Path(path), first_only=True)))):
            find_files([path], (), prune=False)  # which says what is wrong


def describe_skipped(skipped: Mapping[str, int]) -> list[str]:
    """Return a line for each unsupported kind of file.

    >>> describe_skipped({".psd": 1, "video": 3})
    ['1 .psd file skipped: not supported', '3 videos skipped: not supported']
    """
    return [
        f"{count:,} {kind if kind == 'video' else f'{kind} file'}{'' if count == 1 else 's'} skipped: not supported"
        for kind, count in skipped.items()
    ]


def _other_names(found: set[str], known: set[str]) -> set[str]:
    """Return paths of files that have a better path: one without links, or else the first in order."""
    names: dict[str, list[str]] = defaultdict(list)
    for folder in {os.path.dirname(path) for path in (*found, *known)}:  # noqa: PTH120
        names[os.path.realpath(folder)].append(folder)
    # The best name of each folder that has several, and the folder under all of them.
    better: dict[str, list[str]] = {}
    for real, aliases in names.items():
        aliases.sort(key=lambda folder: (folder != real, folder))
        better |= {folder: aliases[:place] for place, folder in enumerate(aliases) if place}
    return {
        path
        for path in (found if better else ())
        for folder in better.get(os.path.dirname(path), ())  # noqa: PTH120
        if (other := os.path.join(folder, os.path.basename(path))) in found or other in known  # noqa: PTH118, PTH119
    }


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
    others = "".join(f", {line}" for line in describe_skipped(skipped))
    return f"{path} has no image in it{others}; {taken_for_images()}"
