"""Pictures of the laboratory: settings, colours, and a figure for a file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hpcml.errors import ConfigError
from launch.lab.core.tables import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "legend.frameon": False,
}
# Colours of Okabe & Ito, which the colour-blind can tell apart; dashes and widths for prints in grey.
BLUE, VERMILION, GREEN, ORANGE, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
GREY = {"s": 6, "color": "0.8", "linewidths": 0, "rasterized": True}  # of background points


@contextmanager
def drawn(path: Path, width: float, height: float) -> Iterator[Figure]:
    """Yield a figure of `width` × `height` inches and write it to `path` (.png) after the body. Raises ConfigError."""
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(f"{path}: drawing needs matplotlib ({error}); install it with: pip install 'hpcml[report]'") from None
    picture = io.BytesIO()
    with matplotlib.style.context(["default", SETTINGS]), warnings.catch_warnings():  # whatever the user's matplotlibrc says
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # of a name: a box is drawn for it
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.15, h_pad=0.1)
        yield figure
        figure.savefig(picture, format="png", dpi=100, metadata={"Software": None})  # without the version of matplotlib
    write_atomically(path, picture.getvalue())
