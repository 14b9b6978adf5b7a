"""The API's own page of documentation, made from its schema: plain HTML that loads nothing from elsewhere."""

from typing import Any, Final

from jinja2 import Environment, PackageLoader

_TEMPLATE: Final = "reference.html"


def reference_page(schema: dict[str, Any]) -> str:
    """The page as HTML."""
    environment = Environment(loader=PackageLoader(__package__), autoescape=True)
    environment.filters |= {"kind": _kind, "quoted": repr}
    return environment.get_template(_TEMPLATE).render(schema)


def _kind(schema: dict[str, Any]) -> str:
    """The kind of a plain value, in a few words."""
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return f'"{schema["const"]}"'
    limits = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    longest = [f"up to {schema['maxLength']} characters"] if "maxLength" in schema else []
    return " ".join([schema.get("format") or schema.get("type", "object"), *limits, *longest])
