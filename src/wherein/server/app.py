"""The application: routes, the page, the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import anyio
import numpy as np
from fastapi import APIRouter, FastAPI
from fastapi.responses import RedirectResponse, Response

import wherein
from wherein.errors import WhereinError
from wherein.server import problems
from wherein.server.guard import Guard
from wherein.server.jobs import Jobs
from wherein.server.library import Library
from wherein.server.problems import Problem
from wherein.server.routes import (
    ERRORS,
    annotate,
    collections,
    curate,
    explore,
    jobs,
    label,
    predict,
    reviews,
    search,
    selections,
    sharing,
    status,
    study,
    train,
    upkeep,
    votes,
)
from wherein.server.settings import Settings
from wherein.server.shapes import ErrorAnswer
from wherein.server.streams import Streams
from wherein.server.thumbs import QuickThumbs, Thumbs

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ROUTES: Final = (
    status,
    collections,
    search,
    selections,
    curate,
    annotate,
    label,
    votes,
    reviews,
    study,
    explore,
    jobs,
    train,
    sharing,
    predict,
    upkeep,
)


def create_app(folders: Sequence[Path], settings: Settings | None = None) -> FastAPI:
    """The application that serves the collections in `folders`."""
    limits = settings or Settings()
    if limits.segmenter:  # one that cannot be loaded is told now, not to the person who draws
        wherein.snap(np.ones((8, 8), bool), np.zeros((8, 8, 3), np.uint8), segmenter=limits.segmenter)
    library = Library(limits)
    for folder in folders:
        library.open(folder)
    running = Jobs(library)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with anyio.create_task_group() as warming:
            warming.start_soon(_warm, library)
            yield
            warming.cancel_scope.cancel()
        running.stop()
        library.close()

    app = FastAPI(
        title="wherein",
        version=wherein.__version__,
        description="Find images and where in them. Errors are always {error: {kind, message, status}}.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    counted = status.Requests()
    app.state.library, app.state.jobs, app.state.thumbs, app.state.requests = library, running, Thumbs(), counted
    app.state.streams = Streams()
    api = APIRouter(prefix="/api/v1", responses=ERRORS)
    for group in _ROUTES:
        api.include_router(group.router)
    app.include_router(api)
    app.include_router(_page())
    problems.install(app)
    _describe_errors(app)
    app.add_middleware(_Counted, requests=counted)
    app.add_middleware(QuickThumbs, thumbs=app.state.thumbs)
    app.add_middleware(Guard, settings=limits)
    return app


async def _warm(library: Library) -> None:
    """Load what searches need before somebody waits for it; what cannot be loaded is said when it is asked for."""
    for name in library.names():
        with suppress(WhereinError, Problem):
            await library.get(name).searching(lambda collection: collection.search("anything", k=1))


def _describe_errors(app: FastAPI) -> None:
    """Routes that answer with pictures or files answer errors in JSON all the same; FastAPI cannot say so itself."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        description = described()
        shape = ErrorAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas = description["components"]["schemas"]
        schemas |= shape.pop("$defs") | {"ErrorAnswer": shape}
        return description

    app.openapi = openapi  # type: ignore[method-assign]


class _Counted:
    """Middleware around `Requests`."""

    def __init__(self, app: Any, requests: status.Requests) -> None:
        self._app = requests.around(app)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI."""
        await self._app(scope, receive, send)


def _page() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    folder = Path(str(files("wherein") / "web"))
    # Kept in memory, since it is small: reading it anew would take a thread's turn for every file of the page.
    known = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in _TYPES}

    def send(name: str) -> Response:
        if name not in known:
            raise Problem(404, f"/{name}: there is nothing here. The page is at /, the routes are at /docs.")
        return Response(known[name], media_type=_TYPES[Path(name).suffix], headers={"cache-control": "no-cache"})

    @router.get("/")
    async def page() -> Response:
        return send("index.html")

    @router.get("/docs")
    async def docs() -> Response:
        return send("docs.html")

    @router.get("/favicon.ico")
    async def icon() -> Response:
        return RedirectResponse("/web/icon.svg", 308)

    @router.get("/web/{name}")
    async def part(name: str) -> Response:
        return send(name)

    return router
