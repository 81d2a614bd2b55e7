"""Chapter 10: Backward. It computes P again from one number per row. Which program may write dQ?"""

from explain.chapters.backward import view
from explain.ui import layout

with layout.chapter(
    __file__,
    goal="see how a kernel computes dQ, dK and dV without the N × N matrix P, and what that costs.",
    words=view.WORDS,
):
    view.without_p()
view.one_row()
view.why_enough()
drawn = view.five_formulas()
view.who_writes_dq()
experiment, traces = view.kernels(drawn)
view.what_is_kept()
view.the_bill()
view.measured()
view.questions(experiment, traces)
view.in_depth()
view.dq_in_every_order(experiment)
view.gradient_of_lse()
view.what_breaks()
layout.closing("backward")
