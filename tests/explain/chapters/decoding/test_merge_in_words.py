"""What the player says of the merge: in the numbers of the run, and of parts, not of tiles."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from explain import lessons
from explain.beats import beats
from explain.chapters.decoding import weights
from explain.engine import engine
from explain.exercises import set_to
from explain.player.view import view
from explain.ui.stepper import lesson
from tests.explain.player_modules import ran

TOLD = "const s = stories[0]; return s.beats.map((b) => [beatName(s, b), beatSentence(s, b, 0)]);"


def told() -> list[list[str]]:
    found: list[list[str]] = ran("beat_words.js", TOLD, lessons.DECODED)
    return found


def numbers(role: str) -> list[float]:
    """Row 0's values of a role, in the merge."""
    found = set_to((lessons.DECODED, lesson(lessons.DECODED.key)[1]), role)
    return [float(np.ravel(value)[0]) for _, value in found]


def test_a_merge_says_what_the_sum_so_far_and_the_part_weigh():
    merges = [said for name, said in told() if name == "merge"]
    weights = numbers("other_rescale")
    assert len(merges) == len(weights) == lessons.DECODED.values["splits"]
    first, second = numbers("other_max")[:2]
    assert second > first, "so that the first part is rescaled"
    alpha = math.exp(first - second)
    assert merges[0] == "Row 0: ℓ = 0 × 0 + 1 (this part) = 1."
    assert merges[1] == f"Row 0: ℓ = 1 × {alpha:.4g} + 1 (this part) = {1 + alpha:.4g}."


def test_the_buffers_between_the_launches_have_words():
    names = [name for name, _ in told()]
    assert "write O of parts and lse of parts" in names
    assert "load lse of parts and O of parts" in names


def test_each_line_of_the_merge_speaks_of_parts():
    lines = "const s = stories[0]; return Array.from({length: s.steps}, (_, k) => [s.text(k), sentence(s, k, 0)]);"
    said: dict[str, list[str]] = defaultdict(list)
    for text, words in ran("sentences.js", lines, lessons.DECODED):
        said[text.split("=")[0].strip()].append(words)
    assert said["beta"][0] == "Row 0: β = 1: this part has the largest lse."
    assert "is the weight of this part" in said["beta"][2]
    alphas = said["alpha"][-lessons.DECODED.values["splits"] :]
    assert alphas[0] == "Row 0: α = 0: nothing is merged yet."
    assert "is the weight of the parts so far" in alphas[1]
    assert alphas[2] == "Row 0: α = 1: the parts so far keep the largest lse."
    assert any("output of this part ×" in words for words in said["acc"])


def test_the_merge_has_beats_of_its_own():
    trace = engine().trace(lessons.DECODED).trace
    found = beats(trace, lessons.DECODED.entry.roles)
    merge = [beat for beat in found if trace.launch(beat.begin).kernel == "flash_decoding_merge_kernel"]
    kinds = [beat.kind for beat in merge]
    assert kinds == ["setup", *("load", "new_max", "merge") * 4, "normalise", "write"]


def test_rows_of_a_group_are_rows_of_the_players_s():
    run, _ = lesson(lessons.DECODED.key)
    assert (run.view["score_shape"], run.view["axes"]) == ([4, 64], ["rows", "keys"])
    sentence = lessons.DECODED.with_(inputs="sentence_short", head_dim=32, kv_len=15, seq_len=2)
    labels = view(sentence, lesson(lessons.DECODED.key)[1], "recorded")["row_labels"]
    assert labels[:2] == labels[2:4]
    assert len(labels) == sentence.entry.score_shape(sentence.values)[0] == 8


def test_the_weights_of_the_parts_merge_their_outputs_to_attention_of_all_keys():
    _, trace = lesson(lessons.DECODED.key)
    lse = weights.of_parts(lessons.DECODED, trace)
    parts = [float(np.ravel(value)[0]) for _, value in set_to((lessons.DECODED, trace), "other_output")]
    merged = sum(share * part for share, part in zip(weights.shares(lse), parts, strict=True))
    written = trace.history("o")[-1][1].numpy()
    assert merged == pytest.approx(float(written[0, 0]), rel=1e-5)


def test_a_part_without_keys_weighs_nothing_and_so_do_all_parts_of_a_row_that_sees_none():
    assert weights.shares([-math.inf, 0.0, 0.0]) == [0.0, 0.5, 0.5]
    assert weights.shares([-math.inf] * 2) == [0.0, 0.0]
    assert "0% · lse −∞" in weights.drawn([-math.inf] * 2)
    assert weights.equations([-math.inf] * 2)[-1] == "O of row 0 = 0   no part has a key"
    assert weights.equations([-math.inf, 0.0, 0.0])[-1] == "O of row 0 = 50%\u00a0O_1 + 50%\u00a0O_2"
