"""The API for who does not know yet what to ask: words, what could stand where one types, and queries that work."""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response

from ..errors import printable
from ..gallery.completing import Completion
from ..gallery.examples import Example, examples_of
from ..gallery.name_index import NameIndex
from ..gallery.word_index import WordIndex
from . import schemas
from .follower import Served
from .formulas import MAX_CHARACTERS
from .parameters import Limit
from .presenters import find, tell_name
from .responses import as_json
from .services import ServicesDep

router: Final = APIRouter()

_PATIENCE: Final = 0.3


@router.get("/words", response_model=schemas.WordsAnswer)
async def get_words(services: ServicesDep, limit: Limit = 200) -> Response:
    """The words that tell most of the gallery."""
    served = services.follower.current()
    index = await services.states.get(_words, served)
    return as_json(
        schemas.WordsAnswer(
            words=[
                schemas.WordShare(word=word, pictures=count, share=count / len(served.browser))
                for word, count in index.telling[:limit]
            ],
            has_words=index.is_ready,
        )
    )


@router.get("/complete", response_model=schemas.CompleteAnswer)
async def complete(
    services: ServicesDep,
    text: Annotated[str, Query(max_length=MAX_CHARACTERS, description="a formula, as far as it is typed")] = "",
    cursor: Annotated[int | None, Query(ge=0, le=MAX_CHARACTERS, description="in characters; else the end")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 8,
) -> Response:
    """What could stand at the cursor of a formula that is being typed."""
    served = services.follower.current()
    await services.states.get(_words, served)
    # Of a million names an index takes seconds, once: words do not wait for it.
    with_files = await services.states.soon(_names, served, _PATIENCE) is not None
    at = len(text) if cursor is None else min(cursor, len(text))
    return as_json(await services.pool.run(_complete, text, at, limit, with_files, served))


@router.get("/examples", response_model=schemas.ExamplesAnswer)
async def get_examples(services: ServicesDep) -> Response:
    """Queries that find something in this gallery."""
    served = services.follower.current()
    found = await services.states.get(_examples, served)
    return as_json(await services.pool.run(_tell_examples, found, served))


def _words(served: Served) -> WordIndex:
    return served.gallery.word_index


def _names(served: Served) -> NameIndex:
    return served.browser.name_index


def _examples(served: Served) -> list[Example]:
    return examples_of(served.gallery)


def _complete(text: str, cursor: int, limit: int, with_files: bool, served: Served) -> schemas.CompleteAnswer:
    start, end, found = served.gallery.complete(text, cursor, limit, with_files, served.browser)
    return schemas.CompleteAnswer(start=start, end=end, completions=[_tell(one, served) for one in found])


def _tell(found: Completion, served: Served) -> schemas.Completion:
    picture = None if found.position is None else tell_name(served.browser, found.position)
    return schemas.Completion(
        text=found.text,
        kind=found.kind,
        label=printable(found.label),
        pictures=found.pictures,
        id=None if picture is None else picture.id,
        version="" if picture is None else picture.version,
    )


def _tell_examples(found: list[Example], served: Served) -> schemas.ExamplesAnswer:
    return schemas.ExamplesAnswer(
        examples=[
            schemas.Example(
                formula=one.formula,
                sentence=printable(one.sentence),
                hits=[tell_name(served.browser, find(served.browser, hit.id)) for hit in one.hits],
            )
            for one in found
        ]
    )
