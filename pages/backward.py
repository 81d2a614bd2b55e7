"""Chapter 10: Backward. P again from one number per row, and who may write dQ."""

from explain.chapters.backward import view
from explain.ui import layout

layout.chapter(
    __file__,
    goal="see how a kernel computes dQ, dK and dV without the N × N matrix P, and what that costs.",
    words="Training needs gradients. The layers after attention send back dO, how the loss changes with each element "
    "of O. The backward pass turns it into dQ, dK and dV.",
)
view.one_row()
experiment, traces = view.kernels()
view.what_is_kept()
view.the_bill()
view.who_writes_dq(experiment)
view.gradient_of_lse()
view.closing(experiment, traces)
