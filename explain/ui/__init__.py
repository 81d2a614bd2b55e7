"""What pages share, one call a picture. A page imports this and only lays out."""

from explain.ui.controls import ATTENTION_PRESETS, ROW_PRESETS, controls
from explain.ui.device import engine_status, on_device
from explain.ui.gpu import gpu_choice, host_bytes
from explain.ui.layout import cards, chapter, chapter_link, footer, prose, questions, sources, try_this
from explain.ui.runs import row_sums, stepper, traced, traces_of, traffic_table

__all__ = [
    "ATTENTION_PRESETS",
    "ROW_PRESETS",
    "cards",
    "chapter",
    "chapter_link",
    "controls",
    "engine_status",
    "footer",
    "gpu_choice",
    "host_bytes",
    "on_device",
    "prose",
    "questions",
    "row_sums",
    "sources",
    "stepper",
    "traced",
    "traces_of",
    "traffic_table",
    "try_this",
]
