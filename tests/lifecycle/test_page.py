"""docs/lifecycle.md is what the transition tables draw. It tests no move."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_page_is_drawn_from_the_tables_as_they_are() -> None:
    spec = importlib.util.spec_from_file_location("lifecycle_page", ROOT / "scripts" / "lifecycle_page.py")
    assert spec is not None
    assert spec.loader is not None
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    current = (ROOT / "docs" / "lifecycle.md").read_text(encoding="utf-8")
    assert current == drawing.page(), "run scripts/generate"
