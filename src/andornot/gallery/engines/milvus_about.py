"""What there is one of in a gallery, beside its collection in Milvus: documents in parts, under their own digests.

A manifest names the documents; it is one record, written when they are there and before the former ones go. So a
reader has those of one moment, and what is damaged or missing is found.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from pymilvus import DataType, MilvusClient  # type: ignore[import-untyped]

from ..errors import GalleryError
from .milvus_connection import Connection

_MANIFEST: Final = "manifest"
_FORMAT: Final = 1
_PART: Final = 45_000  # bytes; 60,000 letters, and Milvus takes 65,535
_LONGEST: Final = 65_535
_AT_ONCE: Final = 64


class About:
    """The documents beside a collection."""

    def __init__(self, server: Connection, collection: str) -> None:
        self._server, self._collection, self._name = server, collection, f"{collection}_about"

    def write(self, documents: Mapping[str, bytes], owner: Mapping[str, Any]) -> None:
        """Puts other documents in the place of the former ones. Only for who holds the gallery's lock."""
        self._create(owner)
        named = {name: _digest(content) for name, content in documents.items()}
        there = self._named()
        for name, content in documents.items():
            if named[name] not in there.values():
                self._write_parts(named[name], content)
        manifest = {"format": _FORMAT, "documents": named, "sizes": {name: len(documents[name]) for name in named}}
        self._put([(_MANIFEST, json.dumps(manifest))])
        self._server.call("flush", self._name)
        for digest in {*there.values()} - {*named.values()}:
            self._server.call("delete", self._name, filter=f'key >= "{digest}/" and key < "{digest}0"')

    def is_there(self) -> bool:
        """Whether there are documents."""
        return bool(self._named())

    def manifest(self) -> dict[str, Any]:
        """Which documents there are. A GalleryError if there are none."""
        found = self._contents([_MANIFEST]) if self._server.call("has_collection", self._name) else {}
        try:
            manifest: dict[str, Any] = json.loads(found[_MANIFEST])
            if manifest["format"] > _FORMAT:
                raise GalleryError(f"{self._name} was written by a newer andornot: update andornot")
        except (KeyError, ValueError, TypeError):
            raise GalleryError(
                f"{self._collection} in Milvus holds no gallery that can be opened by its address: andornot index "
                f"--gallery FOLDER --engine milvus://…/{self._collection} makes it so"
            ) from None
        return manifest

    def read(self, manifest: Mapping[str, Any], name: str) -> bytes:
        """One document of a manifest, whole and undamaged."""
        digest, size = manifest["documents"][name], manifest["sizes"][name]
        keys = [_key(digest, number) for number in range(-(-size // _PART))]
        found: dict[str, str] = {}
        for start in range(0, len(keys), _AT_ONCE):
            found |= self._contents(keys[start : start + _AT_ONCE])
        try:
            content = b"".join(base64.b64decode(found[key]) for key in keys)
        except (KeyError, ValueError):
            content = b""
        if _digest(content) != digest:
            raise GalleryError(f"{name} of {self._collection} in Milvus is damaged: the next andornot index mends it")
        return content

    def _named(self) -> dict[str, str]:
        try:
            documents: dict[str, str] = self.manifest()["documents"]
        except GalleryError:
            return {}
        return documents

    def _contents(self, keys: list[str]) -> dict[str, str]:
        self._server.call("load_collection", self._name)
        listed = ", ".join(f'"{key}"' for key in keys)
        found = self._server.call(
            "query",
            self._name,
            filter=f"key in [{listed}]",
            output_fields=["key", "content"],
            limit=len(keys),
            consistency_level="Strong",
        )
        return {record["key"]: record["content"] for record in found}

    def _write_parts(self, digest: str, content: bytes) -> None:
        parts = [
            (_key(digest, number), base64.b64encode(content[start : start + _PART]).decode())
            for number, start in enumerate(range(0, len(content), _PART))
        ]
        for start in range(0, len(parts), _AT_ONCE):
            self._put(parts[start : start + _AT_ONCE])

    def _put(self, records: list[tuple[str, str]]) -> None:
        # Milvus wants a vector in every collection.
        rows = [{"key": key, "content": content, "nothing": [0.0, 0.0]} for key, content in records]
        self._server.call("upsert", self._name, rows)

    def _create(self, owner: Mapping[str, Any]) -> None:
        """Makes the collection; one of another gallery is a GalleryError."""
        if self._server.call("has_collection", self._name):
            held = self._server.call("describe_collection", self._name)["description"]
            try:
                is_ours = json.loads(held)["gallery"] == owner["gallery"]
            except (ValueError, KeyError, TypeError):
                is_ours = False
            if not is_ours:
                raise GalleryError(f"{self._name} in Milvus is not of this gallery: choose another name")
            return
        description = json.dumps({"gallery": owner["gallery"], "format": _FORMAT})
        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
        schema.add_field("key", DataType.VARCHAR, max_length=100, is_primary=True)
        schema.add_field("content", DataType.VARCHAR, max_length=_LONGEST)
        schema.add_field("nothing", DataType.FLOAT_VECTOR, dim=2)
        index = MilvusClient.prepare_index_params()
        index.add_index("nothing", index_type="FLAT", metric_type="L2", params={})
        self._server.call("create_collection", self._name, schema=schema, index_params=index)


def _key(digest: str, number: int) -> str:
    return f"{digest}/{number:06}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
