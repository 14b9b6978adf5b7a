"""Which source a bare path belongs to, by what lies there."""

from pathlib import Path

from .cifar10 import is_cifar10
from .coco import find_instances
from .imagefolder import has_class_folders
from .mnist import is_mnist
from .splits import check_folder
from .voc import find_years


def recognise(path: Path) -> str:
    """The name of the source; a folder that is nothing else is `folder`."""
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
