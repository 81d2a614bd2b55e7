"""What pages share, one call a picture. A page imports this and only lays out."""

from explain.ui.charts import chart, image_format
from explain.ui.compiled import tile_choice, tile_cost, tile_grid, tile_report
from explain.ui.controls import ATTENTION_PRESETS, ROW_PRESETS, choose, controls, kernel, option
from explain.ui.device import engine_status, on_device
from explain.ui.gpu import gpu_choice, host_bytes
from explain.ui.layout import STYLE, cards, chapter, chapter_link, footer, icon, prose, questions, sources, try_this
from explain.ui.levels import counted_here, traced_bytes, ways
from explain.ui.papers import (
    paper_accesses,
    paper_figure,
    paper_figure_2,
    paper_hierarchy,
    paper_records,
    paper_tables,
    paper_theorem,
)
from explain.ui.pictures import drawing, pressable, pressed
from explain.ui.records import counters_here, records_choice
from explain.ui.rungs import climb, climb_counters, climb_roofline
from explain.ui.runs import row_sums, stepper, traced, traces_of, traffic_table
from explain.ui.speed import speed_bars, speed_case, speed_curve, speed_ideas, speed_result, speed_shapes, speed_table
from explain.ui.sweeps import sweep_choice, sweep_growth, sweep_points, sweep_readings, sweep_roofline
from explain.ui.timeline import timeline
from explain.ui.times import faster_from, first_call
from explain.ui.tuning import tuning

__all__ = [
    "ATTENTION_PRESETS",
    "ROW_PRESETS",
    "STYLE",
    "cards",
    "chapter",
    "chapter_link",
    "chart",
    "choose",
    "climb",
    "climb_counters",
    "climb_roofline",
    "controls",
    "counted_here",
    "counters_here",
    "drawing",
    "engine_status",
    "faster_from",
    "first_call",
    "footer",
    "gpu_choice",
    "host_bytes",
    "icon",
    "image_format",
    "kernel",
    "on_device",
    "option",
    "paper_accesses",
    "paper_figure",
    "paper_figure_2",
    "paper_hierarchy",
    "paper_records",
    "paper_tables",
    "paper_theorem",
    "pressable",
    "pressed",
    "prose",
    "questions",
    "records_choice",
    "row_sums",
    "sources",
    "speed_bars",
    "speed_case",
    "speed_curve",
    "speed_ideas",
    "speed_result",
    "speed_shapes",
    "speed_table",
    "stepper",
    "sweep_choice",
    "sweep_growth",
    "sweep_points",
    "sweep_readings",
    "sweep_roofline",
    "tile_choice",
    "tile_cost",
    "tile_grid",
    "tile_report",
    "timeline",
    "traced",
    "traced_bytes",
    "traces_of",
    "traffic_table",
    "try_this",
    "tuning",
    "ways",
]
