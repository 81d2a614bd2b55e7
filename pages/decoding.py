"""Chapter 12: Decoding. One query over a long cache: split the keys, merge the parts, and count the bytes."""

from explain.chapters.decoding import view
from explain.chapters.decoding.exercises import BYTES, MASKS, PARTS, Shown
from explain.ui import controls, layout
from explain.ui.gpu import gpu_choice

with layout.chapter(__file__):
    part = controls.view(PARTS, BYTES, MASKS)
    view.introduce(part)
    match part:
        case "Parts and merge":
            experiment = view.choose()
            gpu = gpu_choice()
        case "Bytes and time":
            gpu = gpu_choice()
match part:
    case "Parts and merge":
        shown = view.step_through(experiment, gpu)
        view.programs(gpu)
        view.measured()
    case "Bytes and time":
        shown = Shown(part, gpu)
        view.bandwidth(gpu)
        view.caches(gpu)
        view.no_help()
    case _:
        shown = view.masks()
view.closing(shown)
