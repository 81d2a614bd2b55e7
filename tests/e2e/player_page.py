"""The page that test_player.py drives: one player, showing the runs that ?case= names in the folder PLAYER_CASES."""

import json
import os
from pathlib import Path

import streamlit as st

from explain.player.component import Run, player
from explain.trace.file import TraceFile

FOLDER = Path(os.environ["PLAYER_CASES"])

st.set_page_config(layout="wide")

if st.button("Rerun"):
    st.text("run again")
if not st.toggle("Elsewhere"):
    case = json.loads(FOLDER.joinpath(f"{st.query_params['case']}.json").read_text())
    player([Run(TraceFile(FOLDER.joinpath(run["file"]).read_bytes()), run["view"]) for run in case], key="player")
