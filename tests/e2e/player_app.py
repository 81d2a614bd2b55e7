"""The app that test_player.py drives: one player, showing the runs that ?case= names in the folder PLAYER_CASES."""

import json
import os
from pathlib import Path

import streamlit as st

from explain.player import Run, player

FOLDER = Path(os.environ["PLAYER_CASES"])

st.set_page_config(layout="wide")


@st.fragment
def show() -> None:
    """The player alone comes to rest: the rest of the page does not run again."""
    case = json.loads(FOLDER.joinpath(f"{st.query_params['case']}.json").read_text())
    step = player([Run(FOLDER.joinpath(run["file"]).read_bytes(), run["view"]) for run in case], key="player")
    st.text(f"at rest on {step}")


st.button("Rerun")
if not st.toggle("Elsewhere"):
    show()
