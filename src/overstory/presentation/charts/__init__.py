"""Charts as SVG text, written by hand in the house's style: a page with a picture does not load a plotting library."""
