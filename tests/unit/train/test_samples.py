from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.unit.train.rollouts import rollout, turn

from sandlot.errors import Invalid
from sandlot.records import Turn
from sandlot.train.samples import STREAMS, samples_of


def test_a_conversation_is_one_sample_that_joins_prompts_and_completions_as_they_are_on_record() -> None:
    turns = [turn([1, 2], [3, 4], [-0.1, -0.2], version=4), turn([5], [6], [-0.3], parent=0, version=5)]
    (sample,), counts = samples_of(rollout(turns), max_length=10)
    assert sample.streams["tokens"].tolist() == [1, 2, 3, 4, 5, 6]
    assert sample.streams["mask"].tolist() == [False, False, True, True, False, True]
    assert sample.streams["logprob"].tolist() == pytest.approx([0, 0, -0.1, -0.2, 0, -0.3])
    assert sample.streams["version"].tolist() == [-1, -1, 4, 4, -1, 5]
    assert sample.streams["position"].tolist() == [0, 1, 2, 3, 4, 5]
    assert counts == {"sampled": 3, "missing_logprob": 0}


@st.composite
def forests(draw: st.DrawFn) -> list[Turn]:
    turns: list[Turn] = []
    for number in range(draw(st.integers(1, 7))):
        parent = draw(st.integers(-1, number - 1))
        prompt = [0] * draw(st.integers(1, 3))
        turns.append(turn(prompt, range(draw(st.integers(1, 4))), parent=parent))
    return turns


@given(forests())
def test_however_turns_fork_each_sampled_token_is_trained_exactly_once_and_streams_stay_aligned(
    turns: list[Turn],
) -> None:
    samples, counts = samples_of(rollout(turns), max_length=1000)
    drawn = sum(len(t.tokens.sampled) for t in turns if t.tokens)
    assert sum(sample.trained for sample in samples) == drawn == counts["sampled"]
    for sample in samples:
        assert set(sample.streams) == set(STREAMS)
        assert {len(stream) for stream in sample.streams.values()} == {len(sample)}


def test_a_sample_that_is_too_long_is_dropped_whole_and_counted() -> None:
    samples, counts = samples_of(rollout([turn([1] * 8, [2, 3, 4])]), max_length=10)
    assert (samples, counts["overlong"]) == ([], 1)


def test_a_turn_shared_with_a_branch_that_is_too_long_is_trained_in_the_other_branch() -> None:
    turns = [turn([1], [2, 3]), turn([4] * 20, [5], parent=0), turn([6], [7], parent=0)]
    (sample,), counts = samples_of(rollout(turns), max_length=10)
    assert sample.streams["tokens"][sample.streams["mask"]].tolist() == [2, 3, 7]
    assert counts["overlong"] == 1


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf"), float("-inf")])
def test_a_token_without_a_finite_logprob_has_no_loss_and_is_counted(missing: float | None) -> None:
    (sample,), counts = samples_of(rollout([turn([1], [2, 3], [-0.5, missing])]), max_length=10)
    assert sample.streams["mask"].tolist() == [False, True, False]
    assert np.isfinite(sample.streams["logprob"]).all()
    assert counts["missing_logprob"] == 1


def test_the_first_token_of_a_sequence_has_no_loss_even_if_it_was_sampled() -> None:
    (sample,), _ = samples_of(rollout([turn([], [2, 3])]), max_length=10)
    assert sample.streams["mask"].tolist() == [False, True]


def test_a_rollout_that_broke_before_its_first_turn_has_no_sample() -> None:
    assert samples_of(rollout([]), max_length=10) == ([], {})


def test_turns_without_token_ids_are_refused_by_name() -> None:
    silent = Turn(prompt=[], completion={"role": "assistant", "content": "hi"})
    with pytest.raises(Invalid, match="turn 0 of rollout t-0 has no token ids"):
        samples_of(rollout([silent]), max_length=10)


def test_lists_of_other_lengths_are_refused_rather_than_cut() -> None:
    with pytest.raises(Invalid, match="2 sampled tokens, 1 log-probabilities"):
        samples_of(rollout([turn([1], [2, 3], [-0.5])]), max_length=10)
    (sample,), _ = samples_of(rollout([turn([1], [2, 3])]), max_length=10)
    with pytest.raises(ValueError, match="advantage has 1 entries for 3 tokens"):
        sample.replace(advantage=np.zeros(1))
