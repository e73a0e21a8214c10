"""What the site needs beside the pages in docs/: texts that live elsewhere in the repository exist once, and links to
them are led there; formulas are MathML, which browsers show without any script."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
NOTEBOOK, AS_PAGE = "examples/puck.ipynb", "notebook.md"
FOLDERS = ("examples",)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=led((ROOT / name).read_text(), "")))
    files.append(File.generated(config, AS_PAGE, content=told(json.loads((ROOT / NOTEBOOK).read_text()))))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.*")):
            files.append(File.generated(config, f"{folder}/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return markdown if page.file.src_uri in (*PAGES.values(), AS_PAGE) else led(markdown, "../")


def on_page_content(content: str, **_: Any) -> str:
    return FORMULA.sub(lambda found: formula(found[2], display=found[1] == "div"), content)


def led(markdown: str, up: str) -> str:
    """Links as the site has them; up: the way from the text to the repository's root."""
    markdown = markdown.replace(f"]({up}{NOTEBOOK}", f"]({AS_PAGE}")
    for name, page in PAGES.items():
        markdown = markdown.replace(f"]({up}{name}", f"]({page}")
    for folder in FOLDERS:
        markdown = markdown.replace(f"]({up}{folder}/", f"]({folder}/")
    return markdown if up else re.sub(r"\]\(docs/", "](", markdown)


def told(notebook: dict[str, Any]) -> str:
    """A notebook's text and code as a page, below its title the way to the file itself."""
    parts = [
        text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        for cell, text in ((cell, "".join(cell["source"])) for cell in notebook["cells"])
    ]
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, f"[The notebook, to run it]({NOTEBOOK})", rest.strip(), *parts[1:]])


def formula(latex: str, display: bool) -> str:
    return convert(html.unescape(latex).strip(), display="block" if display else "inline")
