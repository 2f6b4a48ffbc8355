"""The circuit breaker as a state machine: whatever happens to a server, in whatever order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.upstream.breaker import Breaker, BreakerPolicy, BreakerState

POLICY = BreakerPolicy(failures=3, open_s=30.0)


class BreakerMachine(RuleBasedStateMachine):
    """Requests begin when they are admitted and end in any order; time only goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(POLICY)
        self.now = 1_000.0
        self.running = 0
        self.in_a_row = 0
        self.opened_at: float | None = None
        self.rest_until = 0.0
        self.trials = 0

    @rule(seconds=st.floats(0.0, 40.0))
    def time_goes_on(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def a_request_comes(self) -> None:
        state = self.breaker.state(self.now)
        admitted = self.breaker.admit(self.now)
        if self.now < self.rest_until or state is BreakerState.OPEN:
            assert not admitted
        elif state is BreakerState.CLOSED:
            assert admitted
        elif admitted:
            self.trials += 1
            assert not self.breaker.admit(self.now), "a second request beside the trial"
        self.running += admitted

    @precondition(lambda self: self.running > 0)
    @rule()
    def one_succeeds(self) -> None:
        self.running -= 1
        self.breaker.succeeded()
        self.in_a_row, self.opened_at = 0, None
        assert self.breaker.state(self.now) is BreakerState.CLOSED

    @precondition(lambda self: self.running > 0)
    @rule()
    def one_fails(self) -> None:
        self.running -= 1
        self.breaker.failed(self.now)
        self.in_a_row += 1
        if self.in_a_row >= POLICY.failures:
            assert self.breaker.state(self.now) is BreakerState.OPEN
            self.opened_at = self.now

    @precondition(lambda self: self.running > 0)
    @rule(seconds=st.floats(0.0, 100.0))
    def one_is_told_to_wait(self, seconds: float) -> None:
        self.running -= 1
        before = self.breaker.state(self.now)
        self.breaker.rests(self.now, seconds)
        self.rest_until = max(self.rest_until, self.now + seconds)
        assert self.breaker.state(self.now) is before

    @precondition(lambda self: self.running > 0)
    @rule()
    def one_is_given_up(self) -> None:
        self.running -= 1
        self.breaker.abandoned()

    @invariant()
    def it_never_stays_shut_for_good(self) -> None:
        """With nothing under way somebody is admitted once both times are over: a lost trial must not lock it."""
        if self.running == 0:
            later = max(self.now, (self.opened_at or 0.0) + POLICY.open_s, self.rest_until)
            assert self.breaker.free_at(later) is not None
            assert (self.breaker.free_at(later) or 0.0) <= later

    @invariant()
    def it_is_open_exactly_as_long_as_it_says(self) -> None:
        if self.opened_at is None:
            assert self.breaker.state(self.now) is BreakerState.CLOSED
        elif self.now < self.opened_at + POLICY.open_s:
            assert self.breaker.state(self.now) is BreakerState.OPEN
        else:
            assert self.breaker.state(self.now) is BreakerState.HALF_OPEN


BreakerMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestAServerIsLeftAloneAndTriedAgain = BreakerMachine.TestCase
