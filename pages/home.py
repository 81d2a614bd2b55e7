"""Home: Tilescope. What this is, FlashAttention at work on a real sentence, what runs it here, where to start."""

from explain import lessons
from explain.chapters.home import view
from explain.ui import layout, stepper

layout.chapter(__file__)
layout.prose(
    "FlashAttention, one line at a time: the **real Triton kernel**, on Q, K and V of a real language model reading a "
    "real paragraph. The player opens where a row's maximum first moves, and its sum shrinks. Press **→** for the "
    "next line. Click the player first for **Space**, which plays, and **Home**, which goes to the start."
)
stepper.stepper([lessons.OPENING], key="home")
view.where_to_start()
view.what_you_see()
