"""A picture as a figure to move about in, and on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traindx.report import picture as pictures
from traindx.report.picture import Picture


def drawn(p: Picture, path: str | Path | None) -> Any:
    """The picture as a plotly figure, written to `path` where one is given: .html and .svg need nothing, .png matplotlib."""
    import plotly.graph_objects as go

    figure = go.Figure([go.Scatter(x=line.x, y=line.y, name=line.name, mode="lines") for line in p.lines])
    figure.update_layout(title=f"{p.title}<br><sub>{p.said}</sub>")
    figure.update_xaxes(title=p.x_name, **({"type": "log", "exponentformat": "power"} if p.log_x else {}))
    figure.update_yaxes(title=p.y_name, **({"type": "log", "exponentformat": "power"} if p.log_y else {}))
    for level, word in p.levels:
        figure.add_hline(y=level, line_dash="dash", annotation_text=f"{word} {level:g}")
    for x, word in p.marks:
        figure.add_vline(x=x, line_dash="dash", annotation_text=f"{word} {x:.2g}")
    if p.band is not None:
        figure.add_vrect(x0=p.band[0], x1=p.band[1], opacity=0.15, fillcolor="green", line_width=0)
    if path is not None and Path(path).suffix.lower() in (".html", ".htm"):
        figure.write_html(path, include_plotlyjs=True)  # readable offline
    elif path is not None:
        pictures.save(p, Path(path))
    return figure
