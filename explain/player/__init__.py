"""The player: steps through recorded runs in the browser, line by line. `component` is the Streamlit component."""
