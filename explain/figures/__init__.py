"""The chapters' pictures and tables: pure functions from numbers and traces to HTML, SVG, markdown or Plotly figures."""
