"""Tilescope: see online softmax and FlashAttention at work. Run with `streamlit run app.py`."""

import streamlit as st

from explain import contents as chapters
from explain.engine import engine
from explain.ui import layout

st.set_page_config(page_title="Tilescope", page_icon=layout.icon(), layout="wide")
st.html(layout.STYLE)
engine().warm()

SECTIONS = {"lab": "The lab", "tool": "Tools"}  # the others stand in the bar themselves
sections: dict[str, list[st.Page]] = {}
for page in chapters.pages():
    sections.setdefault(SECTIONS.get(page.kind, ""), []).append(
        st.Page(
            page.path,
            title=page.title,
            icon=page.icon,
            default=page.kind == "home",
            visibility="hidden" if page.kind == "hidden" else "visible",
        )
    )
here = st.navigation(sections, position="top")
here.run()
layout.footer(here, [*sections[""], *sections.get(SECTIONS["lab"], [])])
