"""The pictures of the HTML report, as inline SVG.

They are drawn without a plotting library: those for browsers put a script into every page and draw
nothing without scripts, those for Python would be needed wherever a report is written.
"""
