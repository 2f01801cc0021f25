"""The HTTP of the webhook (B16-B19, B22): what arrives becomes a review, and a decision the answer.

Pods, and what is in credential specs, are in no log and no answer but that to whoever asked.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextlib import AsyncExitStack

from anyio import CapacityLimiter, move_on_after, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import kubeauth
from kubeauth._runtime import SYSTEM_CLOCK, Clock
from kubeauth.gmsa._cluster import Cluster
from kubeauth.gmsa._decision import Decision, Policy, denied
from kubeauth.gmsa._driver import asettled
from kubeauth.gmsa._review import MAX_REVIEW, mutation, read_review, validation, write_review
from kubeauth.gmsa._reviews import ReviewMetrics
from kubeauth.gmsa._steps import Steps
from kubeauth.gmsa._words import in_a_log
from kubeauth.schemas import AdmissionRequest, AdmissionReview

logger = logging.getLogger("kubeauth.gmsa")

_THROWN_AWAY = 4 * MAX_REVIEW
# Bytes. Hardly any review has more; to read the largest takes a second.
_LARGE = 2**17
# So many of those at a time: else they would take all the memory.
_MOST_LARGE = 16
_PIECE = 2**16
_FAILED = denied(500, "the webhook failed. Its log says where")


def webhook(
    cluster: Cluster, metrics: ReviewMetrics, *, policy: Policy, body_timeout: float, decision_timeout: float
) -> Starlette:
    reviews = _Reviews(cluster, metrics, policy, body_timeout, decision_timeout)

    async def mutate(request: Request) -> Response:
        return await reviews.answer(request, mutation)

    async def validate(request: Request) -> Response:
        return await reviews.answer(request, validation)

    async def shown(_request: Request) -> Response:
        text, kind = metrics.shown()
        return Response(text, media_type=kind)

    application = Starlette(
        routes=[
            Route("/mutate", mutate, methods=["POST"]),
            Route("/validate", validate, methods=["POST"]),
            # Any method (B16): what is not a function is asked as it is.
            Route("/health", Response(status_code=204)),
            Route("/info", JSONResponse({"version": kubeauth.__version__})),
            Route("/metrics", shown),
        ],
        exception_handlers={HTTPException: _without_a_body},
    )
    application.router.redirect_slashes = False  # a path is one of these, or not found
    return application


class _Reviews:
    """Answers reviews: whatever goes wrong with one, whoever asked learns that it is denied (B18)."""

    def __init__(
        self,
        cluster: Cluster,
        metrics: ReviewMetrics,
        policy: Policy,
        body_timeout: float,
        decision_timeout: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._policy = policy
        self._body_timeout = body_timeout
        self._decision_timeout = decision_timeout
        self._clock = clock
        self._large = CapacityLimiter(_MOST_LARGE)
        self._reader = CapacityLimiter(1)

    async def answer(
        self, request: Request, decide: Callable[[AdmissionRequest, Policy], Steps[Decision]]
    ) -> Response:
        begun = self._clock.monotonic()
        if not _is_json(request.headers.getlist("content-type")):
            raise HTTPException(415)
        async with AsyncExitStack() as stack:
            try:
                body, is_whole = await self._body(request, stack)
            except ClientDisconnect:
                return Response(status_code=400)  # which nobody gets
            review, denial = await self._read(body)
            decision = denial or await self._decided(review.request, decide)
            answer = write_review(review, decision)
        self._tell(request.url.path, review.request, decision, self._clock.monotonic() - begun)
        # With the rest of what is too large still in it, the connection is of no more use.
        headers = None if is_whole else {"connection": "close"}
        return _Answer(answer, media_type="application/json", headers=headers)

    async def _body(self, request: Request, stack: AsyncExitStack) -> tuple[bytes, bool]:
        """What arrives, and whether that is all.

        What comes after too much is thrown away as it arrives, for as long as a body has, and up to a limit:
        whoever is still sending when the connection is closed is told that it was reset, in place of the
        answer. There are few large ones at a time: `stack` has the place of one.
        """
        body = bytearray()
        thrown_away = 0
        is_large = False
        with move_on_after(self._body_timeout):
            async for chunk in request.stream():
                if len(body) > MAX_REVIEW:
                    thrown_away += len(chunk)
                    if thrown_away > _THROWN_AWAY:
                        break
                    continue
                body += chunk
                if len(body) > _LARGE and not is_large:
                    is_large = True
                    await stack.enter_async_context(self._large)
            else:
                return bytes(body), True
        if len(body) <= MAX_REVIEW:
            raise HTTPException(408, headers={"connection": "close"})
        return bytes(body), False

    async def _read(self, body: bytes) -> tuple[AdmissionReview, Decision | None]:
        """A large one in a thread, one after the other: meanwhile others are answered."""
        if len(body) <= _LARGE:
            return read_review(body)
        return await to_thread.run_sync(read_review, body, limiter=self._reader)

    async def _decided(
        self, request: AdmissionRequest, decide: Callable[[AdmissionRequest, Policy], Steps[Decision]]
    ) -> Decision:
        decision: Decision | None = None
        with move_on_after(self._decision_timeout):
            try:
                steps = decide(request, self._policy)
                decision = await asettled(steps, self._cluster.lookup, self._cluster.review)
            except Exception as error:
                return _failed(error)
        if decision is None:
            return denied(
                500,
                f"it could not be decided in {self._decision_timeout:g} seconds: the API server answers "
                "slowly, or may not be asked more often",
            )
        return decision

    def _tell(self, path: str, request: AdmissionRequest, decision: Decision, seconds: float) -> None:
        self._metrics.answered(path, request.operation, decision.code, seconds)
        logger.log(
            logging.DEBUG if decision.allowed else logging.INFO,
            "%s %s namespace=%s uid=%s allowed=%s code=%d patches=%d seconds=%.3f message=%s",
            path,
            in_a_log(request.operation),
            in_a_log(request.namespace),
            in_a_log(request.uid),
            decision.allowed,
            decision.code,
            len(decision.patch),
            seconds,
            in_a_log(decision.message),
        )


class _Answer(Response):
    """A piece at a time: what is written at once waits for its reader for as long as that likes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        body = bytes(self.body)
        for begin in range(0, len(body), _PIECE):
            end = begin + _PIECE
            await send({"type": "http.response.body", "body": body[begin:end], "more_body": end < len(body)})


def _is_json(kinds: list[str]) -> bool:
    """With a charset, too, if it is the one that JSON has (B17)."""
    if len(kinds) != 1:
        return False
    kind, *parameters = (part.strip().lower() for part in kinds[0].split(";"))
    return kind == "application/json" and set(parameters) <= {"charset=utf-8", 'charset="utf-8"', ""}


def _failed(error: Exception) -> Decision:
    # Not what it says: that may be a piece of a pod.
    where = "".join(traceback.format_tb(error.__traceback__))
    logger.error("a review cannot be answered: %s\n%s", type(error).__name__, where)
    return _FAILED


def _without_a_body(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 -- for this class it is registered
    return Response(status_code=error.status_code, headers=error.headers)
