"""Chapter 10: Backward. It computes P again from one number per row. Which program may write dQ?"""

from explain.chapters.backward import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="see how a kernel computes dQ, dK and dV without the N × N matrix P, and what that costs.",
    words=view.WORDS,
):
    view.chain_rule()
    view.one_row()
experiment, traces = view.kernels()
view.why_enough()
view.what_is_kept()
view.the_bill()
view.measured()
view.who_writes_dq()
view.in_depth()
view.dq_in_every_order(experiment)
view.gradient_of_lse()
view.what_breaks()
view.closing(experiment, traces)
