"""The folders of a gallery as a tree that tells nobody where on the disk it is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..errors import printable
from .paths import is_inside

# What is deeper is counted, and not listed.
_DEEPEST: Final = 32


@dataclass
class FolderNode:
    """A folder: its name, what it is called from the root on, how many pictures are in it, at any depth."""

    name: str
    key: str
    path: str
    pictures: int = 0
    folders: list[FolderNode] = field(default_factory=list)


class FolderTree:
    """The folders with pictures, below what was indexed. `key`s are paths from the root on, as far as they are needed.

    A folder that has nothing but one folder in it is one with that.
    """

    def __init__(self, counts: Mapping[str, int], indexed: Iterable[str]) -> None:
        """`counts`: how many pictures lie directly in each folder; `indexed`: the folders that are looked through."""
        self.root = _grown(counts, _roots(counts, indexed))
        self._paths: dict[str, str] = {}
        self._note(self.root)

    def path_of(self, key: str) -> str | None:
        """Where the folder of that key is; None if there is none."""
        return self._paths.get(key.strip("/"))

    def _note(self, node: FolderNode) -> None:
        if node.path:
            self._paths.setdefault(node.key, node.path)
        for folder in node.folders:
            self._note(folder)


def _roots(counts: Mapping[str, int], indexed: Iterable[str]) -> list[str]:
    """The outermost folders: those that were indexed and have pictures, and those of single files."""
    having = [folder for folder in indexed if any(is_inside(one, folder) for one in counts)]
    having += [one for one in counts if not any(is_inside(one, folder) for folder in having)]
    return sorted(one for one in set(having) if not any(one != other and is_inside(one, other) for other in having))


def _grown(counts: Mapping[str, int], roots: list[str]) -> FolderNode:
    names = _names(roots)
    tops = [_Branch(names[path], "" if len(roots) == 1 else names[path], path) for path in roots]
    for folder, count in counts.items():
        top = next(one for one in tops if is_inside(folder, one.path))
        branch = top
        for part in Path(folder).relative_to(top.path).parts[:_DEEPEST]:
            branch = branch.child(part)
        branch.own += count
    if len(tops) == 1:
        return tops[0].node(may_join=False)
    nodes = [top.node() for top in tops]
    return FolderNode("", "", "", sum(node.pictures for node in nodes), nodes)


class _Branch:
    """A folder while the tree grows."""

    def __init__(self, name: str, key: str, path: str) -> None:
        self.name, self.key, self.path = name, key, path
        self.own = 0
        self._children: dict[str, _Branch] = {}

    def child(self, name: str) -> _Branch:
        if name not in self._children:
            key = f"{self.key}/{printable(name)}" if self.key else printable(name)
            self._children[name] = _Branch(printable(name), key, os.path.join(self.path, name))  # noqa: PTH118
        return self._children[name]

    def node(self, may_join: bool = True) -> FolderNode:
        children = [child.node() for _, child in sorted(self._children.items())]
        if may_join and not self.own and len(children) == 1:
            only = children[0]
            return FolderNode(f"{self.name}/{only.name}", only.key, only.path, only.pictures, only.folders)
        pictures = self.own + sum(child.pictures for child in children)
        return FolderNode(self.name, self.key, self.path, pictures, children)


def _names(roots: list[str]) -> dict[str, str]:
    """The shortest end of each path that no other has."""
    names = {}
    for path in roots:
        parts = Path(path).parts[1:] or (os.sep,)
        ends = ["/".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        others = [other for other in roots if other != path]
        end = next((end for end in ends if not any(other.endswith(f"{os.sep}{end}") for other in others)), ends[-1])
        names[path] = printable(end)
    return names
