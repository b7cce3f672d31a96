"""What the docs site takes from the dashboard when `mkdocs build` makes it: the modules that draw the explorers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

PAGE = Path(__file__).parent.parent / "src" / "traindx" / "dashboard" / "page"
MODULES = ("parts.js", "sketch.js", "charts.js", "explorers.js")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put them beside the page that shows them."""
    from mkdocs.structure.files import File

    for name in MODULES:
        files.append(File.generated(config, f"explorers/{name}", abs_src_path=str(PAGE / name)))
    return files
