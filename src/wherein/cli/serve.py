"""`wherein serve`: the HTTP API and the web page."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wherein.cli.options import RAY_HERE, DeviceOption, IndexOption, TrustOption, use_models

if TYPE_CHECKING:
    import socket

    from wherein.server.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER", help="Collections to serve; by default the nearest .wherein."),
    ] = None,
    collection: Annotated[
        list[Path] | None, typer.Option("--collection", "-c", help="The same, as other commands name one; repeatable.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; anything but this machine itself needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 7333,
    token: Annotated[str | None, typer.Option(envvar="WHEREIN_TOKEN", help="What every request must carry.")] = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="A further name this server is reached by.")] = None,
    index_root: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder, or an address as s3://BUCKET, below which the page may index; by default what is."
        ),
    ] = None,
    index: IndexOption = "auto",
    publish: Annotated[
        str | None, typer.Option(metavar="URL", help="Where to requests may publish: below s3://BUCKET/FOLDER.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="[ADDRESS]", help="Let processes of Ray index: here, or at HOST:PORT.")
    ] = None,
    reports: Annotated[Path | None, typer.Option(help="A folder of benchmark reports to browse.")] = None,
    segmenter: Annotated[
        str, typer.Option(help="onnx:FOLDER or hf:NAME: what the Label view may snap masks with.", show_default=False)
    ] = "",
    search_seconds: Annotated[float, typer.Option(min=1.0, help="How long one search may take.")] = 60.0,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
    device: DeviceOption = None,
    trust_remote_code: TrustOption = False,
) -> None:
    """Serve collections over HTTP: the page at /, the API at /api/v1, its description at /docs."""
    import uvicorn

    from wherein.locations import nearest
    from wherein.server.app import create_app
    from wherein.server.connections import config
    from wherein.server.settings import Settings, is_loopback
    from wherein.values.address import location_of

    use_models(device=device, trust_remote_code=trust_remote_code)
    served = [_folder_of(path) for path in (*(folders or ()), *(collection or ()))] or [nearest(Path.cwd())]
    executor = "threads" if ray is None else f"ray:{ray}".removesuffix(f":{RAY_HERE}")
    _require(served, index=index, publish=publish, executor=executor)
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    listener = _listen(host, port)
    settings = Settings(
        host=host,
        port=listener.getsockname()[1],
        token=None if token is None else token.strip(),
        hosts=tuple(allow_host or ()),
        index_roots=tuple(map(location_of, index_root or ())),
        search_seconds=search_seconds,
        index=index,
        publish=publish,
        executor=executor,
        reports=None if reports is None else reports.expanduser().absolute(),
        segmenter=segmenter,
    )
    app = create_app(served, settings)
    address = _address(settings.host, settings.port, settings.token)
    typer.echo(f"wherein is at {address}   (Ctrl-C stops)", err=True)
    if settings.everywhere:
        typer.echo(_from_elsewhere(settings), err=True)
    if open_:
        typer.launch(address)
    uvicorn.Server(config(app, timeout_graceful_shutdown=2)).run(sockets=[listener])


def _require(folders: list[Path], *, index: str, publish: str | None, executor: str) -> None:
    """Refuse what could not be used later, before anybody is told that the server is there."""
    from wherein.collection import open
    from wherein.errors import InputError
    from wherein.locations import check_executor
    from wherein.values.address import refuse_secrets, url_of

    check_executor(executor)
    if publish is not None and url_of(publish) is None:
        raise InputError(f"--publish {publish}: is no address: give one such as s3://bucket/photos.")
    refuse_secrets(publish or "")
    with open(folders[0]) as opened:
        opened.reach_index(index)


def _folder_of(path: Path) -> Path:
    """The folder of a collection; of a published one, that of its cache."""
    from wherein.collection import open

    if ":/" not in str(path):
        return path.expanduser().absolute()
    with open(path) as published:
        return published.folder


def _listen(host: str, port: int) -> socket.socket:
    import socket

    from wherein.errors import InputError

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol named: asyncio then sends small answers at once, not after the 40 ms of Nagle's delay.
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise InputError(f"{host}:{port}: cannot listen there ({reason}). Choose another with --port.") from error
    return listener


def _address(host: str, port: int, token: str | None) -> str:
    from wherein.server.settings import EVERYWHERE

    shown = "127.0.0.1" if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + ("" if token is None else f"?token={token}")


def _from_elsewhere(settings: Settings) -> str:
    """Where other machines find a server that listens at every address."""
    import socket

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing: only asks which way out would be taken
            found = _address(probe.getsockname()[0], settings.port, settings.token)
    except OSError:
        found = "any address of this machine"
    return f"from other machines at {found}   (by a name: --allow-host NAME)"
