"""The API against its own schema: whatever is sent, the answer is one that the schema promises."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serving import served, small_gallery

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory) -> Iterator[schemathesis.BaseSchema]:
    with served(small_gallery(tmp_path_factory.mktemp("schema"))) as client:
        yield schemathesis.openapi.from_url(f"{client.base_url}/api/openapi.json")


def ask(operation: schemathesis.APIOperation, mode: schemathesis.GenerationMode) -> None:
    """Many requests of one kind, each with its checks."""
    checks = [*CHECKS, negative_data_rejection] if mode == schemathesis.GenerationMode.NEGATIVE else CHECKS

    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(mode))
    def once(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=checks)

    once()


@pytest.mark.slow
@pytest.mark.parametrize("mode", schemathesis.GenerationMode, ids=lambda mode: mode.value)
def test_every_answer_is_as_promised(schema, mode):
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == 26
    for operation in operations:
        can_be_wrong = list(operation.path_parameters) or list(operation.query)
        if mode == schemathesis.GenerationMode.POSITIVE or can_be_wrong:
            ask(operation, mode)
