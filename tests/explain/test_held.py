"""What a variable held after a step is what a replay of its call says."""

import pytest

from explain import lessons, recordings
from explain.held import Held
from explain.trace import file as trace_file
from explain.trace.model import numbers

EVERY = 7
"""Every so many steps are compared: a replay of all of them takes seconds."""


@pytest.mark.parametrize("experiment", [lessons.OPENING, lessons.DECODED, lessons.BACKWARD], ids=lambda one: one.kernel)
def test_each_role_holds_what_a_replay_of_the_call_says(experiment):
    trace = trace_file.read(recordings.path_of(experiment))
    roles = {name: Held(trace, name) for name in experiment.entry.roles.values()}
    unset = 0
    for step in range(0, trace.steps, EVERY):
        state = trace.state(step)
        for name, held in roles.items():
            value = held.after(step)
            unset += value is None
            assert (value is None) == (name not in state)
            assert value is None or value is state[name] or (numbers(value) == numbers(state[name])).all()
    assert unset  # a program's first steps have not set them: what the last program held does not count
