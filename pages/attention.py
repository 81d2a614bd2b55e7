"""Chapter 0: Attention in ten minutes. Query, key, value, score, weight and head, on a real sentence."""

from explain.chapters.attention import view
from explain.ui import layout

shown, token = view.chosen()
with layout.chapter(
    __file__,
    goal="know what attention computes, and why the N × N scores of N tokens are a problem.",
    words=view.what_a_word_looks_at(shown, token),
):
    view.one_row(shown, token)
view.matrices(shown, token)
view.scores(shown, token)
view.weights(shown, token)
view.heads(shown)
view.shapes(shown)
view.too_many_scores(shown)
view.three_kernels(shown)
view.closing(shown, token)
