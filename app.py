"""Tilescope: see online softmax and FlashAttention at work. Run with `streamlit run app.py`.

The server; `main.py` runs for every reader.
"""

import streamlit as st

from explain import server

app = st.App("main.py", routes=server.routes(), lifespan=server.started)
