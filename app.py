"""Tilescope: see online softmax and FlashAttention at work. Run with `streamlit run app.py`.

The server; `main.py` runs for every reader.
"""

from functools import partial

import streamlit as st

from explain import answers, door, given, server
from explain.lecture import Lecture
from explain.room import Room

address = given.room()
lecture = Lecture.at(f"http://{address}:{st.get_option('server.port')}") if address else Lecture.in_hall()
room = Room(address, key=lecture.key) if address and lecture else None
app = st.App(
    "main.py",
    routes=[*server.routes(), *answers.routes(lecture)],
    lifespan=partial(server.started, room=room),
    middleware=door.middleware(room),
)
