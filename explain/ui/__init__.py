"""What pages share, one call a picture. A page imports this and only lays out."""

from explain.ui.compiled import tile_cost, tile_grid
from explain.ui.controls import ATTENTION_PRESETS, ROW_PRESETS, choose, controls, kernel, option
from explain.ui.device import engine_status, on_device
from explain.ui.gpu import gpu_choice, host_bytes
from explain.ui.layout import cards, chapter, chapter_link, footer, prose, questions, sources, try_this
from explain.ui.levels import counted_here, traced_bytes, ways
from explain.ui.pictures import drawing, pressable, pressed
from explain.ui.runs import row_sums, stepper, traced, traces_of, traffic_table

__all__ = [
    "ATTENTION_PRESETS",
    "ROW_PRESETS",
    "cards",
    "chapter",
    "chapter_link",
    "choose",
    "controls",
    "counted_here",
    "drawing",
    "engine_status",
    "footer",
    "gpu_choice",
    "host_bytes",
    "kernel",
    "on_device",
    "option",
    "pressable",
    "pressed",
    "prose",
    "questions",
    "row_sums",
    "sources",
    "stepper",
    "tile_cost",
    "tile_grid",
    "traced",
    "traced_bytes",
    "traces_of",
    "traffic_table",
    "try_this",
    "ways",
]
