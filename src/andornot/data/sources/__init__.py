"""Sources of images. A new source is one line here."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from torch import Tensor

from ...errors import unknown
from ..errors import DataError
from ..imageset import ImageSet
from ..specs import Spec, as_list, as_number, as_yes_no, check_folder, exists, parse_spec
from .cifar10 import is_cifar10, open_cifar10
from .coco import find_instances, open_coco
from .folder import has_class_folders, open_folder, open_imagefolder
from .mnist import is_mnist, open_digits, open_mnist
from .scenes import open_scenes
from .voc import find_years, open_voc


class Source(NamedTuple):
    """How a source is opened: `open([path], split, **options)`, with the reader of each option's text."""

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
    "folder": Source(open_folder),
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

    `split` is a part of the set, such as `train` or `test`; without it the set has all parts. The spec may say it
    too: `mnist:PATH?split=test`. Images are read later, when they are asked for; `images[i]` is then an image, or
    what `transform` makes of it, and its label.
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
    """Return the name of the source of a folder; `folder` if it is no known data set."""
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
    # What is there is meant, even if its name has a colon or a question mark in it.
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
    except RuntimeError:  # ~ of somebody who has no home
        return Path(path)
