"use strict";
(() => {
  const one = (query, from = document) => from.querySelector(query);
  const all = (query, from = document) => [...from.querySelectorAll(query)];

  // Tables: a heading sorts; what is not known comes last in either direction.
  const number = (text) => ({ inf: Infinity, "-inf": -Infinity }[text] ?? Number(text));
  all("table.sortable thead button").forEach((button) => button.addEventListener("click", () => {
    const heading = button.closest("th"), table = button.closest("table"), body = one("tbody", table);
    const column = heading.cellIndex, sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const key = (row) => row.cells[column].dataset.value;
    const lines = [...body.rows], numeric = lines.every((row) => !Number.isNaN(number(key(row))));
    const order = (a, b) => (numeric ? number(a) - number(b) || 0 : a.localeCompare(b));
    lines.sort((a, b) => (key(a) === "") - (key(b) === "") || (key(a) === key(b) ? 0 : sign * order(key(a), key(b))));
    all("th", table.tHead).forEach((other) => other.setAttribute("aria-sort", "none"));
    heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    body.append(...lines);
  }));

  // Buttons that copy a command.
  all("button[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch { // browsers may deny a page from disk this access to the clipboard
      getSelection().selectAllChildren(source);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));
})();
