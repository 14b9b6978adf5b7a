"""Registry of image sources (a new source is one line here), and the choice of the training split."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from torch import Tensor

from ...errors import unknown
from ..errors import DataError
from ..imageset import ImageSet
from ..specs import Spec, as_list, as_number, as_yes_no, check_folder, exists, parse_spec
from .cifar10 import is_cifar10, open_cifar10
from .folder import has_class_folders, open_folder, open_imagefolder
from .labelled_objects import find_instances, find_years, open_coco, open_voc
from .mnist import is_mnist, open_digits, open_mnist
from .scenes import open_scenes

_YEAR: Final = re.compile(r"\d{4}$")


class Source(NamedTuple):
    """A source, opened by `open([path], split, **options)`, with a parser for each option."""

    open: Callable[..., ImageSet]
    needs_path: bool = True
    options: Mapping[str, Callable[[str, str], Any]] = {}


SOURCES: Final[dict[str, Source]] = {
    "digits": Source(open_digits, needs_path=False),
    "scenes": Source(
        open_scenes,
        needs_path=False,
        options={"count": as_number, "seed": as_number, "size": as_number, "classes": as_list},
    ),
    "folder": Source(open_folder, options={"labels": lambda _, file: file}),
    "imagefolder": Source(open_imagefolder),
    "imagenet100": Source(open_imagefolder),
    "mnist": Source(open_mnist),
    "cifar10": Source(open_cifar10),
    "voc": Source(open_voc, options={"years": as_list, "difficult": as_yes_no}),
    "coco": Source(open_coco),
}


def open_images(
    spec: str | os.PathLike[str], split: str | None = None, *, transform: Callable[[Tensor], Any] | None = None
) -> ImageSet:
    """Open the images of a spec: `digits`, `voc:PATH?years=2007`, or a path, whose source is detected.

    `split` is a name such as `train` or `test`; the default is all splits. It can also be part of the spec:
    `mnist:PATH?split=test`. Images are read on access: `images[i]` is an image, or the result of `transform`, and its
    label.
    """
    parsed = _parse(os.fspath(spec))
    options = dict(parsed.options)
    if split is not None and options.get("split", split) != split:
        raise DataError(f'"{spec}" says split={options["split"]}, and split={split} was asked for')
    split = options.pop("split", split)
    path = _expanded(parsed.path)
    name = parsed.source or detect_source(path)
    source = SOURCES[name]
    for option in options:
        if option not in source.options:
            raise DataError(unknown(f"option of {name}", option, [*source.options, "split"]))
    values = {option: source.options[option](option, value) for option, value in options.items()}
    if not source.needs_path:
        if parsed.path:
            raise DataError(f'{name} is built in and takes no path; for a folder of that name write "./{name}"')
        images = source.open(split, **values)
    elif not parsed.path:
        raise DataError(f"{name} needs a path: {name}:PATH")
    else:
        images = source.open(path, split, **values)
    images.source, images.transform = name, transform
    return images


def source_of(spec: str | os.PathLike[str]) -> str:
    """Return the name of the source that `open_images` would use for a spec.

    >>> source_of("voc:/data/VOCdevkit?years=2007")
    'voc'
    """
    parsed = _parse(os.fspath(spec))
    return parsed.source or detect_source(_expanded(parsed.path))


def detect_source(path: Path) -> str:
    """Return the name of the source of a folder; `folder` if it is not a known data set."""
    check_folder(path)
    if find_years(path):
        return "voc"
    if find_instances(path):
        return "coco"
    if is_mnist(path):
        return "mnist"
    if is_cifar10(path):
        return "cifar10"
    return "imagefolder" if has_class_folders(path) else "folder"


def _parse(text: str) -> Spec:
    # An existing path takes precedence, even if it contains a colon or a question mark.
    name, _, rest = text.partition(":")
    if name in SOURCES and rest and exists(_expanded(rest)):
        return Spec(name, rest)
    is_built_in = text in SOURCES and not SOURCES[text].needs_path
    if not is_built_in and text.strip() and exists(_expanded(text)):
        return Spec(None, text)
    parsed = parse_spec(text, SOURCES)
    if parsed.source in SOURCES:
        return parsed
    if parsed.source is not None:
        raise DataError(unknown("source", parsed.source, SOURCES))
    if not exists(_expanded(parsed.path)) and not set(parsed.path) & set("/\\."):
        raise DataError(f"no folder of that name, and {unknown('source', parsed.path, SOURCES)}")
    return parsed


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # ~ of a user without a home folder
        return Path(path)


class Splits(NamedTuple):
    """The training images, and the held-out images for evaluation, if any."""

    train: ImageSet
    held_out: ImageSet | None


def train_split(spec: str | os.PathLike[str]) -> Splits:
    """Return the training images and the held-out images of a source.

    The held-out split is `test`, or else `val` unless there is a split `trainval`, which includes it. All other images
    are for training. Of splits with a year in their names (COCO), only those of the latest year with a training split
    are used, because years share images. If the spec names a split, all of it is for training.
    """
    images = open_images(spec)
    if images.split is not None:
        return Splits(images, None)
    splits = images.splits
    year = next((year for year in years(splits) if {f"train{year}", f"trainval{year}"} & {*splits}), "")
    trainval, val, test = (f"{name}{year}" for name in ("trainval", "val", "test"))
    name = test if test in splits else val if val in splits and trainval not in splits else None
    held_out = None if name is None else _part(images, name, spec)
    if year:
        return Splits(_part(images, trainval if trainval in splits else f"train{year}", spec), held_out)
    if held_out is None:
        return Splits(images, None)
    names = set(held_out.names)
    return Splits(images.subset(np.array([name not in names for name in images.names])), held_out)


def _part(images: ImageSet, split: str, spec: str | os.PathLike[str]) -> ImageSet:
    """Return a split of a set of all images; open it separately if the set does not contain it, e.g. test scenes."""
    if not len(images.parts.get(split, ())):
        return open_images(spec, split=split)
    part = images.subset(images.parts[split])
    part.split = split
    return part


def years(splits: Sequence[str]) -> list[str]:
    """Return the years in names of splits such as COCO's train2017, latest first, followed by an empty string.

    >>> years(["train2014", "val2014", "train2017", "val2017"])
    ['2017', '2014', '']
    """
    found = {match[0] for split in splits if (match := _YEAR.search(split))}
    return [*sorted(found, reverse=True), ""]
