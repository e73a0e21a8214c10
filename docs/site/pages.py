"""The site's pages that are not in docs/ (README, notebook, ...), links to them, and formulas as MathML.

Each of these pages exists once in the repository; links are rewritten. Browsers show MathML without any script.
"""

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
        files.append(File.generated(config, page, content=relinked((ROOT / name).read_text(), "")))
    files.append(File.generated(config, AS_PAGE, content=notebook_page(json.loads((ROOT / NOTEBOOK).read_text()))))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.*")):
            files.append(File.generated(config, f"{folder}/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return markdown if page.file.src_uri in (*PAGES.values(), AS_PAGE) else relinked(markdown, "../")


def on_page_content(content: str, **_: Any) -> str:
    return FORMULA.sub(lambda found: formula(found[2], display=found[1] == "div"), content)


def relinked(markdown: str, up: str) -> str:
    """Rewrite links for the site; up: the path from the page to the repository's root."""
    markdown = markdown.replace(f"]({up}{NOTEBOOK}", f"]({AS_PAGE}")
    for name, page in PAGES.items():
        markdown = markdown.replace(f"]({up}{name}", f"]({page}")
    for folder in FOLDERS:
        markdown = markdown.replace(f"]({up}{folder}/", f"]({folder}/")
    return markdown if up else re.sub(r"\]\(docs/", "](", markdown)


def notebook_page(notebook: dict[str, Any]) -> str:
    """A notebook's Markdown and code as a page, with a link to the file below its title."""
    parts = [
        text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        for cell, text in ((cell, "".join(cell["source"])) for cell in notebook["cells"])
    ]
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, f"[The notebook, to run it]({NOTEBOOK})", rest.strip(), *parts[1:]])


def formula(latex: str, display: bool) -> str:
    return convert(html.unescape(latex).strip(), display="block" if display else "inline")
