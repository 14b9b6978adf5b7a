"""An option is by default what the library's argument is."""

import inspect
from argparse import ArgumentParser
from dataclasses import dataclass

import pytest

from andornot.commands.main import make_parser
from andornot.commands.options import add_argument_of
from andornot.evaluate.experiments.linear import evaluate_knn
from andornot.evaluate.experiments.multilabel import MultilabelConfig
from andornot.gallery import Filter, SearchOptions
from andornot.web.serve import serve


def parsed(*arguments: str) -> dict[str, object]:
    return vars(make_parser(arguments).parse_args(arguments))


def defaults(function: object) -> dict[str, object]:
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


@dataclass(frozen=True)
class Settings:
    top_images: int = 7
    warm: bool = False


def test_an_option_has_the_type_and_the_default_of_its_argument(capsys):
    parser = ArgumentParser()
    add_argument_of(Settings, parser, "--top-images", "how many")
    add_argument_of(Settings, parser, "--warm", "whether")
    assert vars(parser.parse_args([])) == {"top_images": 7, "warm": False}
    assert vars(parser.parse_args(["--top-images=8", "--warm"])) == {"top_images": 8, "warm": True}
    parser.print_help()
    assert "how many (default: 7)" in capsys.readouterr().out


def test_a_search_is_by_default_what_it_is_in_python():
    options = parsed("search", "a", "--gallery=g")
    known = {**defaults(SearchOptions), **defaults(Filter)}
    names = known.keys() & options.keys()
    assert names == {
        *("top", "score", "semantics", "logic", "include_queries", "why", "min_truth", "expand"),
        *("folder", "label", "after", "before", "file_dates", "exclude"),
    }
    options["exclude"] = tuple(options["exclude"])
    assert {name: options[name] for name in names} == {name: known[name] for name in names}


def test_a_server_is_by_default_what_it_is_in_python():
    options, known = parsed("serve", "--gallery=g"), defaults(serve)
    assert {name: options[name] for name in ("host", "port", "cluster", "shards")} == {
        name: known[name] for name in ("host", "port", "cluster", "shards")
    }


@pytest.mark.parametrize(("what", "function"), [("knn", evaluate_knn), ("multilabel", MultilabelConfig)])
def test_an_evaluation_is_by_default_what_it_is_in_python(what, function):
    options = parsed("evaluate", what, "--model=m", "--data=digits", "-o=out")
    known = defaults(function)
    shared = known.keys() & options.keys() - {"model"}
    assert len(shared) >= 2
    assert {name: options[name] for name in shared} == {name: known[name] for name in shared}
