"""The API's own page of documentation, made from its schema: plain HTML that loads nothing from elsewhere."""

from html import escape
from typing import Any


def reference_page(schema: dict[str, Any]) -> str:
    """The page as HTML."""
    operations = "".join(
        _operation(method, path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    )
    shapes = "".join(_shape(name, shape) for name, shape in schema["components"]["schemas"].items())
    title = escape(schema["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/api/docs.css">'
        f"<main><h1>{title}</h1><p>{escape(schema['info']['description'])} "
        '<a href="/api/openapi.json">openapi.json</a> is the same for programs.</p>'
        f"<h2>Requests</h2>{operations}<h2>Answers</h2>{shapes}</main></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parameters = "".join(_parameter(parameter) for parameter in operation.get("parameters", ()))
    responses = "".join(_response(status, response) for status, response in operation["responses"].items())
    return (
        f"<section><h3><b>{method.upper()}</b> <code>{escape(path)}</code></h3>"
        f"<p>{escape(operation['description'])}</p>"
        + (f"<table>{parameters}</table>" if parameters else "")
        + f"<ul>{responses}</ul></section>"
    )


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    default = f", default {schema['default']!r}" if schema.get("default") not in (None, "") else ""
    note = parameter.get("description", "")
    return (
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(_kind(schema) + default)}</td>"
        f"<td>{escape(note)}</td></tr>"
    )


def _response(status: str, response: dict[str, Any]) -> str:
    kinds = ", ".join(
        _link(content["schema"]) if "$ref" in content["schema"] else escape(name)
        for name, content in response.get("content", {}).items()
    )
    return f"<li><code>{status}</code> {kinds} {escape(response['description'])}</li>"


def _shape(name: str, shape: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(key)}</code></td><td>{_link(value)}</td></tr>"
        for key, value in shape.get("properties", {}).items()
    )
    note = escape(shape.get("description", ""))
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3><p>{note}</p><table>{rows}</table></section>'


def _link(schema: dict[str, Any]) -> str:
    """The kind of a value, with a link to its shape."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_link, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_link(schema['items'])}"
    return escape(_kind(schema))


def _kind(schema: dict[str, Any]) -> str:
    """The kind of a plain value, in a few words."""
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return f'"{schema["const"]}"'
    limits = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    longest = [f"up to {schema['maxLength']} characters"] if "maxLength" in schema else []
    return " ".join([schema.get("format") or schema.get("type", "object"), *limits, *longest])
