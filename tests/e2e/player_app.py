"""The server of `player_page.py`."""

from pathlib import Path

import streamlit as st
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from explain import ROOT, scripts

app = st.App(
    Path(ROOT, "tests", "e2e", "player_page.py"),
    routes=[scripts.route(), Mount("/app/static", StaticFiles(directory=ROOT / "static"))],
)
