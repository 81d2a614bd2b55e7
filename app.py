"""Tilescope: see online softmax and FlashAttention at work. Run with `streamlit run app.py`."""

import streamlit as st

from explain import chapters, ui
from explain.engine import engine

st.set_page_config(page_title="Tilescope", page_icon=ui.icon(), layout="wide")
st.html(ui.STYLE)
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
ui.footer(here, [*sections[""], *sections.get(SECTIONS["lab"], [])])
