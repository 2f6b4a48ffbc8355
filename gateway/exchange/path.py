"""One request's way through the gateway, as one generator of events.

    retrieve -> ground -> send -> fold -> check -> release

Whether the client streams is not known here: events are JSON objects, the edge frames or collects them. Whatever
happens, `account` can give the one record of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from checks.types import Case, CheckedFact, Reason, SegmentCheck, Verdict
from gateway import prompt
from gateway.config.model import FactCheckConfig, Policy
from gateway.config.modes import Action, BlockResponse, Release
from gateway.errors import GroundingFailedError
from gateway.exchange import reviews
from gateway.exchange.account import Account
from gateway.exchange.decide import REVIEW, Decision, decide, droppable
from gateway.exchange.judge import case_of, judge_all, not_checked
from gateway.exchange.parts import Call, RouteParts, Services
from gateway.exchange.retrieve import Retrieval, retrieve, scope_of
from gateway.exchange.sentences import SentenceFlow, run_sentences
from gateway.release import Ending, Gate, HeldGate, LiveGate, Out, SentenceGate
from gateway.upstream.base import UpstreamReply, UpstreamRequest
from gateway.wire import chat
from gateway.wire.annotations import (
    citations,
    complaints,
    grounding_object,
    mark_citations,
    moved,
    without_facts,
)
from gateway.wire.fold import Fold
from gateway.wire.types import Answer, ChatRequest, Turn
from retrieval.types import RetrievalStatus


@dataclass(frozen=True, slots=True)
class Head:
    """The upstream answered: its status and the headers that may reach the client. Precedes every `Out`."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


class Exchange:
    """One exchange. Iterate `events()` once."""

    def __init__(self, parts: RouteParts, request: ChatRequest, call: Call, services: Services) -> None:
        self.parts = parts
        self.call = call
        self.account = Account(parts, request, call, services.clock())
        self._request = request
        self._services = services
        self._turns: list[Turn] = []
        self._overflowed = False
        # The route neither grounds nor checks: what the upstream says is passed on as it comes.
        self._untouched = parts.retriever is None and parts.check is None
        self._reviews = parts.check is not None and parts.check.kind == REVIEW

    @property
    def detached(self) -> bool:
        """The check runs after the client was served."""
        return self.parts.check is not None and self.call.check and self.call.release is Release.DETACHED

    @property
    def held(self) -> bool:
        """Nothing of the answer leaves before its verdict."""
        return self.parts.check is not None and self.call.check and self.call.release is Release.HELD

    def events(self) -> AsyncGenerator[Head | Sequence[Out], None]:
        """The answer; what may leave together comes together. Raises `GatewayError`; before the first `Out` that means
        that nothing of it was given out."""
        if self._untouched:
            return self._attempt(self._request, self.account.retrieval, 0)
        return self._events()

    async def _events(self) -> AsyncGenerator[Head | Sequence[Out], None]:
        self._turns = chat.turns(self._request)
        retrieval = await retrieve(self.parts, self._request, self._turns, self.call, self._services)
        self.account.retrieved(retrieval, prompt.question(self._turns), self._services.clock())
        if retrieval.refusal is not None:
            raise retrieval.refusal
        request = retrieval.request
        for attempt in (0, 1):
            async with aclosing(self._attempt(request, retrieval, attempt)) as outs:
                async for out in outs:
                    yield out
            if self.account.decision is not Decision.REPAIR:
                return
            assert self.account.answer is not None
            failed = complaints(self.account.verdicts)
            request = chat.repair_request(retrieval.request, self.account.answer, failed, review=self._reviews)

    async def check_only(self, answer: Answer) -> dict[str, Any]:
        """The verdict on a given answer, as the `grounding` object; nothing is retrieved for a prompt or sent."""
        self._turns = chat.turns(self._request)
        now = self._services.clock()
        self.account.retrieved(Retrieval(RetrievalStatus.OFF, self._request), prompt.question(self._turns), now)
        self.account.folded(answer, now)
        await self._judge(answer, 0)
        return grounding_object(self.account, self.account.verdicts)

    async def judge_detached(self) -> None:
        """The check of an answer that the client already has; its verdict goes to the ledger only."""
        if self.account.answer is not None:
            await self._judge(self.account.answer, 0)

    # -- one attempt ---------------------------------------------------------------------------------------------------

    async def _attempt(
        self, request: ChatRequest, retrieval: Retrieval, attempt: int
    ) -> AsyncGenerator[Head | Sequence[Out], None]:
        fold = self.account.fold = Fold()
        gate = self._gate()
        async with self.parts.upstream.send(self._upstream_request(request, retrieval)) as reply:
            self.account.answered(reply.attempts, self._services.clock(), fallback=reply.fallback)
            if attempt == 0:
                yield Head(reply.status, reply.headers)
            check = self.parts.check
            if isinstance(gate, SentenceGate) and isinstance(check, SegmentCheck):
                async with aclosing(self._sentences(check, reply, fold, gate)) as outs:
                    async for out in outs:
                        yield out
                return
            async for first in reply.deltas:
                leaving: list[Out] = []
                for delta in (first, *reply.arrived()):
                    fold.add(delta)
                    leaving.extend(gate.push(delta))
                if leaving:
                    yield leaving
                if gate.held_bytes and self._overflows(gate):
                    break
        if self._untouched and (whole := fold.whole) is not None:
            self.account.passed_on(whole, self._services.clock())
            yield (Out(whole.data, whole=True),)
            return
        # The connection has gone back by now; checking does not keep the upstream waiting.
        answer = fold.answer()
        self.account.folded(answer, self._services.clock())
        if self.parts.check is not None and not self.detached:
            await self._judge(answer, attempt)
        if self.account.decision is not Decision.REPAIR:
            yield tuple(self._conclude(gate, answer))

    def _upstream_request(self, request: ChatRequest, retrieval: Retrieval) -> UpstreamRequest:
        if self.account.counted and not request.include_usage:
            request = chat.with_usage_told(request)
        body = chat.encode_request(request, model=self.call.upstream_model)
        self.account.sent = body
        return UpstreamRequest(
            path="/chat/completions",
            body=body,
            stream=request.stream,
            headers=self.call.headers,
            authorization=self.call.authorization,
            model=self.call.upstream_model or request.model,
            chat=request,
            query=retrieval.query,
            hits=retrieval.hits,
            limit_s=self._remaining_s(),
        )

    def _remaining_s(self) -> float | None:
        """What is left of the time that the client gives for its answer; None if it gave none, or has it already."""
        given = self._request.options.timeout
        if given is None or (self.detached and self.account.answer is not None):
            return None
        return max(0.001, given - (self._services.clock() - self.account.started))

    def _gate(self) -> Gate:
        if self.parts.check is None or not self.call.check:
            return LiveGate()
        if self.call.release is Release.SENTENCE:
            return SentenceGate()
        return HeldGate() if self.call.release is Release.HELD else LiveGate()

    def _overflows(self, gate: Gate) -> bool:
        """Whether so much is held back that the answer cannot pass any more."""
        if self._overflowed or gate.held_bytes <= self.parts.config.held_bytes:
            return False
        self._overflowed = True
        return self.parts.config.unchecked_policy(Reason.TOO_LONG) is Policy.BLOCK

    # -- check and decide ----------------------------------------------------------------------------------------------

    async def _judge(self, answer: Answer, attempt: int) -> None:
        check = self.parts.check
        assert check is not None
        indexes = sorted(answer.choices)
        if self._overflowed:
            detail = f"the answer is longer than held_bytes ({self.parts.config.held_bytes})"
            verdicts = [not_checked(check.kind, i, Reason.TOO_LONG, detail) for i in indexes]
        elif not self.call.check:
            verdicts = [not_checked(check.kind, i, Reason.DISABLED, "switched off by the request") for i in indexes]
        else:
            tools = reviews.tool_schemas(self._request) if self._reviews else {}
            verdicts = await judge_all(
                self.parts, check, answer, self._base_case(), self._services, tools, self._remaining_s()
            )
        self._decided(verdicts, attempt)

    def _decided(self, verdicts: Sequence[Verdict], attempt: int) -> None:
        held = self.call.release is Release.HELD
        decision = decide(self.parts.config, self.call.action, verdicts, repaired=attempt > 0, held=held)
        self.account.judged(verdicts, decision, attempt=attempt, now=self._services.clock())
        for verdict in verdicts:
            self._services.observer.verdict(self.parts.name, verdict)
        watch = self.parts.watch
        if watch is not None and watch.add(f.score for v in verdicts for f in v.facts if f.score is not None):
            self._services.observer.drift(self.parts.name, drifted=watch.drifted)

    def _base_case(self) -> Case:
        config = self.parts.config
        return Case(
            query=self.account.question,
            answer="",
            history=tuple((turn.role, turn.text) for turn in self._turns[:-1] if turn.text),
            hits=self.account.retrieval.hits,
            scope=scope_of(
                config.retrieval.filters if config.retrieval else {},
                self.parts.check_collections,
                self.call,
                self._request.options.filters,
                config.check.k if isinstance(config.check, FactCheckConfig) else None,
            ),
            options=reviews.review_options(self._request, self._turns) if self._reviews else {},
        )

    # -- release -------------------------------------------------------------------------------------------------------

    def _conclude(self, gate: Gate, answer: Answer) -> Iterator[Out]:
        decision = self.account.decision
        if decision is Decision.BLOCK:
            yield self._blocked(answer)
        elif decision is Decision.MARK or (decision is Decision.FILTER and self._reviews):
            final, shown = reviews.rewritten(answer, self.account.verdicts, removes=decision is Decision.FILTER)
            yield self._delivered(final, self._ending(shown, final))
        elif decision is Decision.FILTER:
            yield self._filtered(answer)
        else:
            yield from gate.close(self._ending(self.account.verdicts, answer), answer)

    def _ending(self, verdicts: Sequence[Verdict], answer: Answer) -> Ending:
        """What the end of `answer` carries; `verdicts` have their offsets in it.

        On a route that neither grounds nor checks that is nothing of ours; of a detached check the client sees nothing.
        """
        usage = self._request.include_usage
        if self._untouched:
            return Ending(include_usage=usage)
        sources = self.account.sources
        shown = () if self.detached else verdicts
        cited: dict[int, list[dict[str, Any]]] = {}
        if any(verdict.facts or verdict.issues for verdict in shown):
            cited = {verdict.choice: citations(verdict, sources) for verdict in shown}
        elif self.account.retrieval.hits:
            # The verdict comes later than the answer, or not at all: the marks that the model wrote are what there is.
            cited = {i: mark_citations(c.content or "", sources) for i, c in answer.choices.items()}
        grounding = grounding_object(self.account, shown)
        return Ending(annotations=cited, grounding=grounding, include_usage=usage)

    def _blocked(self, answer: Answer) -> Out:
        """An error, or a refusal in the shape of an answer; nothing of the answer's own text is in either."""
        grounding = grounding_object(self.account, self.account.verdicts, withheld=True)
        if self.parts.config.block_response is BlockResponse.ERROR:
            raise GroundingFailedError(
                "the answer was withheld because it did not pass this route's check", grounding=grounding
            )
        refused = chat.refused(answer, self.parts.config.refusal_text)
        return self._delivered(refused, Ending(grounding=grounding))

    def _filtered(self, answer: Answer) -> Out:
        """The answer without the facts that stand in the way, as one whole object."""
        shown, contents = [], {}
        for verdict in self.account.verdicts:
            text = answer.choices[verdict.choice].content or ""
            kept, contents[verdict.choice] = without_facts(verdict, text, self._unwanted)
            shown.append(kept)
        if not any(text.strip() for text in contents.values()):
            self.account.decision = Decision.BLOCK  # nothing is left of it
            return self._blocked(answer)
        final = chat.replaced(answer, contents)
        return self._delivered(final, self._ending(shown, final))

    def _unwanted(self, fact: CheckedFact) -> bool:
        return droppable(self.parts.config, fact)

    def _delivered(self, answer: Answer, ending: Ending) -> Out:
        """A whole object of our own making, kept as what the client got."""
        self.account.delivered = chat.completion(answer, ending.annotations, ending.grounding)
        return Out(self.account.delivered, whole=True)

    # -- sentence by sentence ------------------------------------------------------------------------------------------

    async def _sentences(
        self, check: SegmentCheck, reply: UpstreamReply, fold: Fold, gate: SentenceGate
    ) -> AsyncGenerator[Sequence[Out], None]:
        base = self._base_case()
        annotate = self.call.action is Action.ANNOTATE
        flow = SentenceFlow(
            check,
            gate,
            lambda index, text: replace(base, answer=text, choice=index),
            lambda fact: not annotate and self._unwanted(fact),
            drop=self.call.action is Action.FILTER,
            limit=self.parts.config.held_bytes,
        )
        let_long_pass = self.parts.config.unchecked_policy(Reason.TOO_LONG) is Policy.ALLOW
        run = run_sentences(flow, reply.deltas, fold, gate, let_long_pass=let_long_pass)
        async with aclosing(run) as outs:
            async for out in outs:
                yield (out,)
        answer = _cut(fold.answer(), flow.judged_texts())
        self.account.folded(answer, self._services.clock())
        self._decided(self._concluded(check, flow, base, answer), 0)
        yield tuple(self._close_sentences(gate, answer))

    def _concluded(self, check: SegmentCheck, flow: SentenceFlow, base: Case, answer: Answer) -> list[Verdict]:
        if flow.too_long and not flow.stopped:
            detail = f"the answer is longer than held_bytes ({self.parts.config.held_bytes}), or has too many pieces"
            return [not_checked(check.kind, index, Reason.TOO_LONG, detail) for index in sorted(answer.choices)]
        return [
            replace(check.conclude(case_of(base, choice), flow.facts(index)), choice=index)
            for index, choice in sorted(answer.choices.items())
        ]

    def _close_sentences(self, gate: SentenceGate, answer: Answer) -> Iterator[Out]:
        contents = {index: gate.released(index) for index in answer.choices}
        if self.account.decision is Decision.PASS and any(gate.dropped(index) for index in answer.choices):
            self.account.decision = Decision.FILTER  # pieces were left out before the answer became too long to judge
        if self.account.decision is Decision.FILTER and not any(text.strip() for text in contents.values()):
            self.account.decision = Decision.BLOCK  # nothing is left of it
        decision = self.account.decision
        final, shown = answer, list(self.account.verdicts)
        if decision is not Decision.PASS:
            final = chat.replaced(answer, contents)
            if decision is Decision.BLOCK:
                final = chat.refused(answer, self.parts.config.refusal_text, contents)
            shown = [moved(verdict, gate.offsets(verdict.choice)) for verdict in shown]
        ending = self._ending(shown, final)
        if decision is not Decision.PASS:
            self.account.delivered = chat.completion(final, ending.annotations, ending.grounding)
        yield from gate.close(ending, final)


def _cut(answer: Answer, texts: Mapping[int, str]) -> Answer:
    """The answer with each content cut to what was judged of it."""
    choices = {
        index: replace(choice, content=texts[index]) if choice.content is not None and index in texts else choice
        for index, choice in answer.choices.items()
    }
    return replace(answer, choices=choices)
