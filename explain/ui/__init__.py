"""What pages share, one call a picture. A page imports this and only lays out."""

from explain.ui.compiled import tile_cost, tile_grid
from explain.ui.controls import ATTENTION_PRESETS, ROW_PRESETS, choose, controls, kernel
from explain.ui.device import engine_status, on_device
from explain.ui.gpu import gpu_choice, host_bytes
from explain.ui.layout import cards, chapter, chapter_link, footer, prose, questions, sources, try_this
from explain.ui.papers import (
    paper_accesses,
    paper_figure,
    paper_figure_2,
    paper_hierarchy,
    paper_records,
    paper_tables,
    paper_theorem,
)
from explain.ui.pictures import drawing
from explain.ui.records import counters_here, records_choice
from explain.ui.runs import row_sums, stepper, traced, traces_of, traffic_table

__all__ = [
    "ATTENTION_PRESETS",
    "ROW_PRESETS",
    "cards",
    "chapter",
    "chapter_link",
    "choose",
    "controls",
    "counters_here",
    "drawing",
    "engine_status",
    "footer",
    "gpu_choice",
    "host_bytes",
    "kernel",
    "on_device",
    "paper_accesses",
    "paper_figure",
    "paper_figure_2",
    "paper_hierarchy",
    "paper_records",
    "paper_tables",
    "paper_theorem",
    "prose",
    "questions",
    "records_choice",
    "row_sums",
    "sources",
    "stepper",
    "tile_cost",
    "tile_grid",
    "traced",
    "traces_of",
    "traffic_table",
    "try_this",
]
