"""Chapter 12: Decoding. One query over a long cache: split the keys, merge the parts, and count the bytes."""

import streamlit as st

from explain.chapters.decoding import view
from explain.chapters.decoding.exercises import PARTS
from explain.ui import layout

with layout.chapter(__file__, goal=view.GOAL):
    above = st.container()
gpu = view.programs()
part = view.choose(above)
view.step_through(part)
view.fastest(gpu)
view.bandwidth(gpu)
view.caches(gpu)
view.no_help()
if part == PARTS:
    view.both_masks()
view.measured()
view.closing(part, gpu)
