"""Whatever is sent, as the OpenAPI description allows it or not: no route breaks, every answer is as described."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import PIL.Image
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

import wherein
from wherein.server.app import create_app
from wherein.server.settings import Settings
from wherein.server.shapes import Shape

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]
# A stream of events ends only with its job, which no made-up id has.
ROUTES = [
    (method, path)
    for path, methods in create_app([]).openapi()["paths"].items()
    for method in methods
    if not path.endswith("/events")
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The description of a server with two pictures."""
    folder = tmp_path_factory.mktemp("served") / "pictures"
    folder.mkdir()
    for colour in ("red", "blue"):
        PIL.Image.new("RGB", (64, 48), colour).save(folder / f"{colour}.png")
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
    app = create_app([folder], Settings(hosts=("testserver",)))
    app.router.lifespan_context = _unending
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@asynccontextmanager
async def _unending(_: Any) -> AsyncIterator[None]:
    """Every request starts and stops the application; the collection must outlive them."""
    yield


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), ROUTES, ids=[f"{method} {path}" for method, path in ROUTES])
def test_no_request_breaks_the_server(schema: Any, method: str, path: str, mode: GenerationMode) -> None:
    @settings(
        max_examples=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
        derandomize=True,
        database=None,
    )
    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        if "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = "pictures"
        for place in (case.query, case.body):
            if isinstance(place, dict) and "image_id" in place:
                place["image_id"] = "red.png"
        case.call_and_validate(checks=CHECKS)

    try:
        send()
    except Exception as error:
        if type(error).__name__ != "Unsatisfiable":  # a route without parameters cannot be asked wrongly
            raise


def test_no_shape_of_a_body_takes_a_number_in_quotes() -> None:
    described = create_app([]).openapi()
    shapes, names = {kind.__name__: kind for kind in kinds(Shape)}, set[str]()
    routes = [route for path in described["paths"].values() for route in path.values()]
    waiting: list[Any] = [route["requestBody"] for route in routes if "requestBody" in route]
    while waiting:
        found = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(waiting.pop())))
        waiting += [described["components"]["schemas"][name] for name in found - names]
        names |= found
    strict = {name for name in names & shapes.keys() if shapes[name].model_config.get("strict")}
    assert {"SearchIn", "PartIn", "MaskIn", "ItemIn", "JobIn"} <= strict == names & shapes.keys()


def kinds(kind: type[Shape]) -> Iterator[type[Shape]]:
    """Its subclasses, all of them."""
    for one in kind.__subclasses__():
        yield one
        yield from kinds(one)
