"""What workers and the process that started them tell each other while jobs run."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

from colangevin.experiments.catalogue.jobs import Job
from colangevin.experiments.sweeps.cluster import ray

__all__ = ["INTERVAL", "Mailbox", "News", "Reporter"]

#: seconds between two posts of a worker, and between two looks into the mailbox
INTERVAL = 0.25

#: a method of a watcher, and what to call it with
News = tuple[str, tuple[Any, ...]]


class Mailbox:
    """An actor of Ray: news go one way, and whether to stop goes the other.

    It keeps nothing that a restart would lose for good: whether to stop is said again with every look.
    """

    def __init__(self) -> None:
        self._posts: list[tuple[str, list[News]]] = []
        self._stopping = False

    def post(self, name: str, news: list[News]) -> bool:
        """Post news of a job.

        Args:
            name: of the job.
            news: what a watcher is to be told.

        Returns:
            Whether to save and stop.
        """
        self._posts.append((name, news))
        return self._stopping

    def look(self, stopping: bool) -> list[tuple[str, list[News]]]:
        """Take the posts out.

        Args:
            stopping: what posts are answered from now on.

        Returns:
            Names of jobs, each with its news, in the order in which they came.
        """
        self._stopping = stopping
        posts, self._posts = self._posts, []
        return posts


class Reporter:
    """A watcher in a worker, which posts what it is told. Of news of a kind between two posts, the last goes.

    Args:
        mailbox: the actor.
        job: what the worker runs.
    """

    def __init__(self, mailbox: Any, job: Job) -> None:
        self._mailbox = mailbox
        self._job = job
        self._news: dict[tuple[str, str], News] = {}
        self._stopping = False
        # A task whose main thread waits for Ray gives its CPU to the next task meanwhile, which then begins.
        self._thread = ThreadPoolExecutor(max_workers=1)
        self.post()

    def stopped(self) -> bool:
        """Whether to save and stop, as asked after every epoch. What is new is posted then."""
        self._post_in_time()
        return self._stopping

    def post(self) -> None:
        """Post what is new, and learn whether to stop."""
        answer = self._mailbox.post.remote(self._job.name, list(self._news.values()))
        self._stopping = self._thread.submit(ray().get, answer).result()
        self._news.clear()
        self._posted = time.monotonic()

    def _post_in_time(self) -> None:
        if time.monotonic() - self._posted >= INTERVAL:
            self.post()

    def _tell(self, method: str, about: str, *values: Any) -> None:
        self._news[method, about] = method, values

    def damaged(self, why: str) -> None:
        self._tell("damaged", why, why)

    def begin(self, job: Job, epoch: int) -> None:
        self._tell("begin", job.name, job, epoch)
        self.post()  # the first epoch may take minutes

    def advanced(self, job: Job, epoch: int) -> None:
        self._tell("advanced", job.name, job, epoch)

    def measured(self, job: Job, curves: dict[str, NDArray[Any]]) -> None:
        # the last point alone: whole curves grow to megabytes, and a terminal shows no other
        self._tell("measured", job.name, job, {name: curve[-1:] for name, curve in curves.items()})

    def looking(self, job: Job, done: int, total: int) -> None:
        self._tell("looking", job.name, job, done, total)
        self._post_in_time()

    def downloading(self, name: str, done: int, total: int) -> None:
        self._tell("downloading", name, name, done, total)
        self._post_in_time()
