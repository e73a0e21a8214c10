"""The site's pages that are not files in docs/: the README, the notebook, and the reference that is read off the code.

Each fact exists once in the repository. Links are written as paths in the repository and rewritten for the site.
Formulas become MathML, which browsers show without any script.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import generated

ROOT = Path(__file__).parents[2]
NOTEBOOK = "examples/puck.ipynb"
PAGES = {  # a file of the repository -> its page
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    NOTEBOOK: "tutorials/notebook.md",
}
FOLDERS = ("examples", "benchmarks")  # whose files are part of the site where a page links to them
LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)(?=[)#])")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    for name, page in PAGES.items():
        text = (ROOT / name).read_text()
        text = notebook_page(json.loads(text)) if name == NOTEBOOK else text
        files.append(File.generated(config, page, content=relinked(text, name, page)))
    for page, content in generated.pages().items():
        files.append(File.generated(config, page, content=content))
    linked = {NOTEBOOK}
    for source in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        here = posixpath.dirname(str(source.relative_to(ROOT)))
        linked |= {posixpath.normpath(posixpath.join(here, found)) for _, found in LINK.findall(source.read_text())}
    for name in sorted(linked):
        if name.split("/")[0] in FOLDERS and (ROOT / name).is_file():
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    generated_pages = {*PAGES.values(), *generated.pages()}
    here = page.file.src_uri
    return markdown if here in generated_pages else relinked(markdown, f"docs/{here}", here)


def on_page_content(content: str, **_: Any) -> str:
    content = FORMULA.sub(lambda found: formula(found[2], display=found[1] == "div"), content)
    return re.sub(
        r"<table>(.*?)</table>", r'<div class="wide" tabindex="0"><table>\1</table></div>', content, flags=re.S
    )


def relinked(markdown: str, source: str, page: str) -> str:
    """Rewrite the links of a file of the repository for its page on the site."""

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        place = PAGES.get(target, target.removeprefix("docs/"))
        return found[1] + posixpath.relpath(place, posixpath.dirname(page) or ".")

    return LINK.sub(moved, markdown)


def notebook_page(notebook: dict[str, Any]) -> str:
    """A notebook's text, code and stored outputs as a page, with a link to the file below its title."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        parts += [shown for output in cell.get("outputs", []) if (shown := output_of(output))]
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, f'<a href="../{NOTEBOOK}" download>Download the notebook</a>', rest.strip(), *parts[1:]])


def output_of(output: dict[str, Any]) -> str:
    """What a cell has printed or drawn, as Markdown."""
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="output of the cell above" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    text = "".join(output.get("text") or data.get("text/plain", ""))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


def formula(latex: str, display: bool) -> str:
    return convert(html.unescape(latex).strip(), display="block" if display else "inline")
