"""The page Attention in ten minutes, part by part."""

from __future__ import annotations

import numpy as np
import streamlit as st

from explain import lessons
from explain.chapters.attention import contexts, exercises, figures
from explain.chapters.attention.heads import LAYER, Head, head, heads_that_differ, with_larger
from explain.figures.numbers import count, fixed, moved, number, percent
from explain.ui import layout, pictures, stepper
from explain.ui.exercises import ask
from explain.ui.gpu import gpu_choice
from explain.ui.repeat import repeated
from kernels.inputs import HEADS_TO_SHOW

START, START_HEAD = "it", HEADS_TO_SHOW[0]
"""The first picture: the head of the run below. In it “it” and its verb “was” give each other the largest weight."""
WORDS = ("kernel", "program", "launch", "tile", "HBM", "beat")
"""The terms that the first player needs."""
LENGTHS = (15, 64, 256, 1024, 4096)


def chosen() -> tuple[Head, int]:
    """The head and the token that the reader chose."""
    first = head(START_HEAD)
    token = int(pictures.pressed("token", [str(i) for i in range(len(first.tokens))], str(first.tokens.index(START))))
    return head(int(pictures.pressed("head", [str(one) for one in HEADS_TO_SHOW], str(first.number)))), token


def what_a_word_looks_at(shown: Head, token: int) -> str:
    """The first paragraphs: from a token's query to its output."""
    word, d = shown.tokens[token], shown.q.shape[1]
    best = int(shown.weights[token].argmax())
    return (
        "A language model reads tokens: words and pieces of words. **Attention** lets each token collect information "
        f"from all tokens, itself included. The token “{word}” compares its **query** q with the **key** k of every "
        f"token. A good match "
        f"gives a high **score**. Softmax turns the scores into **weights**: “{word}” gives "
        f"{percent(float(shown.weights[token, best]), 1)} of its weight to “{shown.tokens[best]}”. The **output** o is "
        "the sum of all **values** v, each times its weight.\n\n"
        f"You see **head {shown.number}** of {len(HEADS_TO_SHOW)}. In {heads_that_differ(token, best)} of the other "
        f"{len(HEADS_TO_SHOW) - 1} heads “{word}” looks most at another token.\n\n"
        "**Press another token.**\n\n"
        f"Each strip shows {d} numbers. Amber is above 0, grey is below. In outputs, pink is above 0. The numbers "
        "come from a real language model, all-MiniLM-L6-v2, as it reads this sentence. It adds [CLS] and [SEP], "
        "which mark the beginning and the end."
    )


def one_row(shown: Head, token: int) -> None:
    """One token's row from its query to its output; a press chooses another token."""
    wide, narrow = figures.row_of(shown, token), figures.row_of(shown, token, narrow=True)
    pictures.pressable(f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>', "token")


@repeated
def matrices(shown: Head, token: int) -> None:
    """Q, K and V: a row for each token."""
    n, d = shown.q.shape
    with layout.part(
        "Query, key, value",
        "From each token the model makes three rows of numbers, with three learned matrices. The **query** says "
        "what the token looks for. The **key** says what it offers. The **value** is what it passes on. The length of "
        f"a row is d = {d}, the **head dimension**. All tokens give the matrices Q, K and V, each N × d = {n} × {d}.",
    ):
        pictures.drawing(figures.matrices(shown, token), figures.matrices(shown, token, narrow=True))


@repeated
def scores(shown: Head, token: int) -> None:
    """A score is a dot product; all of them are S, N × N."""
    n, d = shown.q.shape
    best = int(shown.scores[token].argmax())
    dot = float(shown.q[token] @ shown.k[best])
    with layout.part(
        "Score",
        f"A **score** is a dot product: multiply {d} pairs of numbers and add them. For the query of "
        f"**{shown.tokens[token]}** and the key of **{shown.tokens[best]}** it is {number(dot)}. Divide by √d = "
        f"{number(np.sqrt(d))}: the score is {fixed(float(shown.scores[token, best]), 2)}. Without this "
        "division, scores grow with √d: the larger d, the more of the weight one token gets. Every query meets "
        f"every key, so there are N × N = {n} × {n} = {n * n} scores: the matrix "
        "S = QKᵀ / √d. In PyTorch:\n\n`S = Q @ K.T / d**0.5`",
    ):
        pictures.drawing(figures.score_map(shown, token), figures.score_map(shown, token, narrow=True))


@st.fragment
def weights(shown: Head, token: int) -> None:
    """Why softmax: weights are positive and sum to 1; a larger score takes from all others."""
    row, words = shown.scores[token], shown.tokens
    raised = int(row.argmin())
    with layout.part(
        "Weight: why softmax?",
        "An average needs **weights** that are positive and sum to 1. Scores can be negative, and their sum can be "
        "anything. Softmax takes exp of each "
        "score, which is positive, and divides by their sum. Raise a score by 1 and its exp grows e = 2.72 "
        f"times. **Move the slider** to make the score of {words[raised]} larger: its weight grows, all others shrink, "
        "and the sum stays 1. In PyTorch:\n\n`P = torch.softmax(S, dim=-1)`",
    ):
        more = st.slider(f"Add to the score of “{words[raised]}”", 0.0, 8.0, 0.0, 0.5, key="more", bind="query-params")
        after = with_larger(row, raised, more)
        wide, narrow = (
            figures.softened(words, shown.weights[token], after, raised, narrow=one) for one in (False, True)
        )
        pictures.drawing(wide, narrow)
        st.caption(
            f"{words[raised]}: {fixed(float(row[raised]), 2)} + {number(more)} = {fixed(float(row[raised]) + more, 2)} "
            f"· its weight {percent(float(shown.weights[token, raised]), 1)} → {percent(float(after[raised]), 1)} · "
            f"sum of all weights {fixed(float(after.sum()), 4)} · dashed: without your change"
        )


def heads(shown: Head) -> None:
    """The heads of the layer, to choose from."""
    each = [head(number) for number in sorted(HEADS_TO_SHOW)]
    back = max(each, key=lambda one: one.mean_before)
    first = max(each, key=lambda one: one.mean_first)
    most = "more than 99.9%" if back.mean_before > 0.999 else percent(back.mean_before, 1)
    with layout.part(
        "Head",
        f"A **head** is one set of Q, K and V. All pictures here are of layer {LAYER} of the model. It has {len(each)} "
        "heads, each with its own learned matrices. Each looks at different things. On average over all tokens but the "
        f"first, head {back.number} gives "
        f"{most} of its weight to the token before, and head {first.number} gives "
        f"{percent(first.mean_first, 1)} to the first token. A square is P of one head: a row for each query, a column "
        "for each key. Press a head: all pictures above then show it.",
    ):
        pictures.pressable(figures.heads(each, shown.number), "head")


@st.fragment
def shapes(shown: Head) -> None:
    """The shapes of every matrix to one scale, at the reader's N."""
    n, d = len(shown.tokens), shown.q.shape[1]
    with layout.part(
        "Shapes",
        "Q, K, V and O are N × d. S and P are N × N. Move N: d stays, so Q, K, V and O become long and thin, and S "
        "and P take over. Twice the tokens make four times the scores. All of attention in PyTorch:\n\n"
        "```python\nP = torch.softmax(Q @ K.T / d**0.5, dim=-1)\nO = P @ V\n```",
    ):
        tokens = st.select_slider("Tokens, N", LENGTHS, n, key="tokens", bind="query-params", format_func=count)
        pictures.drawing(figures.shapes(tokens, d), figures.shapes(tokens, d, narrow=True))


@st.fragment
def too_many_scores(shown: Head) -> None:
    """The bytes of S at the context lengths of published models, beside a GPU's memory."""
    n = len(shown.tokens)
    longest = max(contexts.MODELS, key=lambda one: one.context)
    layout.header("Why N² hurts")
    words, drawn = st.columns([1, 2], gap="large")
    with drawn:
        gpu = gpu_choice()
        pictures.drawing(figures.score_bytes(gpu, n), figures.score_bytes(gpu, n, narrow=True))
        st.caption(f"S of one head in fp16: N² scores × {contexts.ITEM_BYTES} bytes. {figures.sources()}")
    with words.container(key="words: why N² hurts"):
        layout.prose(
            f"S has N² numbers. In fp16 each takes {contexts.ITEM_BYTES} bytes. For this sentence, N = {n}, that is "
            "nothing. "
            f"For {longest.name}, N = {count(longest.context)}, S of one head takes {moved(longest.score_bytes)}: "
            f"{figures.too_large(gpu)} the memory of an {gpu.name}. A model has dozens of heads in each of dozens of "
            "layers. FlashAttention computes the same output and never stores S: it makes a small tile of S on the "
            "chip, uses it, and drops it. The next chapters show why this is exact. They begin with softmax."
        )


def three_kernels(shown: Head) -> None:
    """The sentence's first head through standard attention, line by line."""
    recorded = HEADS_TO_SHOW[0]
    layout.header("The same on a GPU, line by line")
    layout.prose(
        "Standard attention runs as three **kernels** here: one each for S, P and O. Press Next beside the caption, "
        f"or the → key, to watch them on this sentence. This run is head {recorded}, in "
        f"{lessons.ONE_TILE.values['dtype']}. A tile is 16 × 16, because sizes are powers of two. Its last row and "
        "column are padding."
    )
    layout.words("Words for the player", WORDS)
    if shown.number != recorded:
        st.button(
            f"The pictures above show head {shown.number}. Show head {recorded} there too",
            on_click=st.query_params.update,
            args=({"head": str(recorded)},),
        )
    stepper.stepper([lessons.ONE_TILE], key="attention", chapter="attention")


def closing(shown: Head, token: int) -> None:
    """Things to try, questions, sources."""
    ask("attention", exercises.QUESTIONS, exercises.Shown(shown, token), f"{shown.number} {token}")
    layout.closing("attention")
