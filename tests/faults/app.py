"""The app that the faults happen to: the run that ?experiment= names, in the player, and the digest of its trace.

Its engine has the worker of `worker.py`, and a run that this process has shown before is asked for anew, as after a
restart of the server.
"""

import json

import streamlit as st

from explain import engine as engines
from explain.experiment import Experiment
from explain.ui import stepper
from tests.faults.digest import digest_of
from tests.faults.worker import FAULTY

st.set_page_config(layout="wide")
engines.Engine.__init__.__defaults__ = (FAULTY, engines.DEVICE_WORKER)  # before the first one is made
stepper.lesson.cache_clear()
stepper._lesson.clear()
experiment = Experiment.from_json(json.loads(st.query_params["experiment"]))
if stepper.stepper([experiment], key="player"):
    run, _ = stepper.lesson(experiment.key)
    st.text(digest_of(run.trace.data))
