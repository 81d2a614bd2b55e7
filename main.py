"""What runs for every reader: the navigation over pages/. `app.py` is the server."""

import copy

import streamlit as st

from explain import contents, given, login
from explain.engine import engine
from explain.ui import layout, rerun

st.set_page_config(page_title="Tilescope", page_icon=layout.icon(), layout="wide")
login.need()
engine().warm()

pages = layout.navigation()
chosen = st.navigation([*pages.values()], position="hidden")
here = next(page for page in contents.pages() if pages[page.stem] == chosen)
st.html(layout.style(here))
if (own := given.page()) and here.kind == "home" and "own file shown" not in st.session_state:
    st.session_state["own file shown"] = True
    st.switch_page(pages[own], query_params={})
if wanted := layout.bar(here):
    st.switch_page(pages[wanted], query_params={})  # without them Streamlit refuses to drop what a control keeps there


@st.fragment  # a control reruns the page alone, without the navigation around it
def page() -> None:
    with rerun.drawing():
        copy.copy(chosen).run()  # Streamlit lets a page run once: so its copies do


page()
layout.footer(here)
login.leave()
