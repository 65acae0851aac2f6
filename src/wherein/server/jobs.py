"""Jobs that index, train, push or publish: one at a time per collection; what is done stays when cancelled."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import wherein
from wherein.collection import Collection
from wherein.errors import WhereinError
from wherein.server.job_shapes import JobOut
from wherein.server.library import Library
from wherein.server.models import check_job
from wherein.server.problems import BROKEN, Problem, of_error
from wherein.server.shapes import ErrorBody
from wherein.values.address import Location, inside
from wherein.values.records import Progress

Step = Callable[[Progress], None]
Act = Callable[[Collection, Step], dict[str, Any]]
"""What a job does with a collection, and what came of it."""
State = Literal["running", "done", "cancelled", "failed"]


class _Cancelled(Exception):
    """Somebody cancelled the job."""


@dataclass(slots=True)
class Job:
    """Indexing, training, pushing or publishing in progress, or what came of it."""

    id: str
    collection: str
    folder: Location
    target: Path
    """The collection's folder."""
    encoder: str | None = None
    layers: tuple[str, ...] | None = None
    """What to keep beside what the collection keeps already."""
    every: float | None = None
    """Seconds that a video may go on without an image."""
    verify: bool = False
    """Whether files are read whose size and date are as they were."""
    index: str | None = None
    """The index to keep, where it is to be another than before."""
    act: Act | None = None
    """What the job does instead of indexing."""
    said: Callable[[str], str] = str
    """Calls folders by their names in what is told of the job."""
    state: State = "running"
    done: int = 0
    total: int = 0
    skipped: int = 0
    last_skip: str | None = None
    report: dict[str, Any] | None = None
    error: ErrorBody | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def out(self) -> JobOut:
        """As it is sent."""
        return JobOut(
            id=self.id,
            collection=self.collection,
            folder=self.said(str(self.folder)),
            state=self.state,
            done=self.done,
            total=self.total,
            skipped=self.skipped,
            last_skip=self.last_skip,
            report=self.report,
            error=self.error,
        )


class Jobs:
    """All jobs since the server started, of every kind."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._jobs = dict[str, Job]()
        self._turn = threading.Lock()

    def all(self) -> list[Job]:
        """Every job, the oldest first."""
        return list(self._jobs.values())

    def get(self, job_id: str) -> Job:
        """A job by its id."""
        if job_id not in self._jobs:
            raise Problem(404, f"no job {job_id!r} was started on this server.")
        return self._jobs[job_id]

    def start(
        self,
        folder: str,
        *,
        collection: str | None,
        encoder: str | None,
        layers: Sequence[str] | None = None,
        every: float | None = None,
        verify: bool = False,
        index: str | None = None,
    ) -> Job:
        """Index a folder into a served collection, or into a new one of its own."""
        indexed = self.allowed(folder)
        if collection is not None:
            served = self._library.get(collection)
            with wherein.open(served.folder) as opened:
                check_job(encoder, layers, opened.made_by)
        elif not isinstance(indexed, Path):
            raise Problem(400, f"{folder}: is elsewhere; name the collection that it is to be indexed into.")
        else:
            check_job(encoder, layers, frozenset())
            wherein.open(indexed, create=True, encoder=encoder).close()
            served = self._library.open(indexed)
        kept = None if layers is None else tuple(layers)
        return self._run(
            Job(secrets.token_hex(8), served.name, indexed, served.folder, encoder, kept, every, verify, index)
        )

    def start_training(self, collection: str, asked: Mapping[str, Any]) -> Job:
        """Train in a served collection; nothing but what it keeps, and what the request holds, is read."""
        served = self._library.get(collection)
        with wherein.open(served.folder) as opened:
            check_job(asked.get("encoder"), None, opened.made_by)

        def act(found: Collection, step: Step) -> dict[str, Any]:
            return found.train(**asked, on_progress=step).to_dict()

        return self._run(Job(secrets.token_hex(8), served.name, served.folder, served.folder, act=act))

    def start_push(self, collection: str, *, layers: Sequence[str] | None, index_type: str | None) -> Job:
        """Push a served collection to the index that the server was started with."""
        index, served = self._library.settings.index, self._library.get(collection)
        if ":" not in index or index.startswith("compressed"):
            raise Problem(400, "this server asks no index elsewhere: start it with --index milvus:HOST:PORT.")

        def act(found: Collection, step: Step) -> dict[str, Any]:
            pushed = found.push(index, layers=layers, index_type=index_type, on_progress=step)
            return {"layers": [asdict(one) for one in pushed]}

        return self._run(Job(secrets.token_hex(8), served.name, served.folder, served.folder, act=act))

    def start_publishing(self, collection: str) -> Job:
        """Publish a served collection, under its name, below the address that the server was started with."""
        url, served = self._library.settings.publish, self._library.get(collection)
        if url is None:
            raise Problem(400, "this server publishes nothing: start it with --publish s3://BUCKET/FOLDER.")
        target = f"{url.rstrip('/')}/{served.name}"

        def act(found: Collection, step: Step) -> dict[str, Any]:
            files, images = found.publish(target, on_progress=step)
            return {"files": files, "images": images}

        return self._run(Job(secrets.token_hex(8), served.name, served.folder, served.folder, act=act))

    def resume(self, job_id: str) -> Job:
        """Go on where a cancelled or failed job stopped."""
        old = self.get(job_id)
        if old.state == "running":
            raise Problem(409, "the job is still running.")
        again = (old.collection, old.folder, old.target, old.encoder, old.layers, old.every, old.verify, old.index)
        return self._run(Job(secrets.token_hex(8), *again, act=old.act))

    def cancel(self, job_id: str) -> Job:
        """Stop after the image at hand; what is indexed stays."""
        job = self.get(job_id)
        job.stop.set()
        return job

    def stop(self) -> None:
        """Cancel all and wait for them."""
        for job in self._jobs.values():
            job.stop.set()
        for job in self._jobs.values():
            if job.thread is not None:
                job.thread.join(timeout=10)

    def allowed(self, folder: str) -> Location:
        """The real path of a folder below an allowed root; an address only below one that was allowed by name."""
        try:
            meant = self._library.places().meant(folder)
            real = meant.resolve(strict=True) if isinstance(meant, Path) else meant
        except (OSError, ValueError, RuntimeError):
            raise Problem(404, f"{folder}: there is no such folder.") from None
        there = real.is_dir() if isinstance(real, Path) else True
        if not there or all(inside(root, real) is None for root in self._library.index_roots()):
            roots = ", ".join(map(str, self._library.index_roots())) or "none"
            raise Problem(403, f"{folder}: is not below a folder that may be indexed ({roots}). See --index-root.")
        return real

    def _run(self, job: Job) -> Job:
        job.said = self._library.places().said
        with self._turn:
            if any(other.state == "running" and other.target == job.target for other in self._jobs.values()):
                raise Problem(409, f"{job.collection}: is at work already. Wait for that job, or cancel it.")
            self._jobs[job.id] = job
        job.thread = threading.Thread(
            target=_work, args=(job, self._library.settings.executor), name=f"index {job.collection}", daemon=True
        )
        job.thread.start()
        return job


def _work(job: Job, executor: str) -> None:
    def step(progress: Progress) -> None:
        if not progress.stage or job.act is not None:
            job.done, job.total = progress.done, progress.total
        if progress.skip is not None:
            job.skipped += 1
            job.last_skip = job.said(f"{progress.skip.path}: {progress.skip.reason}")
        if job.stop.is_set():
            raise _Cancelled

    try:
        if job.act is not None:
            with wherein.open(job.target) as collection:
                job.report = job.act(collection, step)
            job.state = "done"
            return
        with wherein.open(job.target, encoder=job.encoder) as collection:
            chosen: dict[str, Any] = {
                "encoder": job.encoder,
                "layers": job.layers,
                "every": job.every,
                "index": job.index,
                "executor": executor,
            }
            report = collection.add(job.folder, **chosen, verify=job.verify, on_progress=step)
            skipped = [{"path": job.said(skip.path), "reason": job.said(skip.reason)} for skip in report.skipped]
            job.report = asdict(report) | {"skipped": skipped}
        job.state = "done"
    except _Cancelled:
        job.state = "cancelled"
    except WhereinError as error:
        told = of_error(error)[1]["error"]
        job.error = ErrorBody(**told | {"message": job.said(told["message"])})
        job.state = "failed"
    except Exception:
        logging.getLogger("wherein.server").exception("the job on %s failed", job.folder)
        job.error = ErrorBody(kind="Internal", message=BROKEN, status=500)
        job.state = "failed"
