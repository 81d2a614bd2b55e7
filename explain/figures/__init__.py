"""What all figures share: colours, number formats, tables, labels, and pieces of SVG and Plotly."""
