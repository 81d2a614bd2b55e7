"""Tilescope: see online softmax and FlashAttention at work. Run with `streamlit run app.py`.

The server; `main.py` runs for every reader.
"""

from functools import partial

import streamlit as st

from explain import door, given, server
from explain.room import Room

room = Room(address) if (address := given.room()) else None
app = st.App(
    "main.py", routes=server.routes(), lifespan=partial(server.started, room=room), middleware=door.middleware(room)
)
