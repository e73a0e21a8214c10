"use strict";
(() => {
  const all = (query) => [...document.querySelectorAll(query)];
  const root = document.documentElement, theme = document.querySelector("#theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function setTheme(name) {
    root.dataset.theme = name;
    theme.textContent = name === "dark" ? "Light" : "Dark";
  }
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  theme.addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));

  // Lines of the charts: a chip hides those of its method, and brings them forward while the pointer is on it.
  const lines = all(".drawing [id*='-line-']");
  const method = (line) => line.id.split("-line-")[1];
  function focus(own) {
    lines.forEach((line) => { line.style.opacity = own === null || method(line) === own ? 1 : 0.12; });
  }
  all("input[data-method]").forEach((box) => {
    const own = box.dataset.method, chip = box.closest(".chip");
    box.addEventListener("change", () => lines.filter((line) => method(line) === own).forEach((line) => { line.style.display = box.checked ? "" : "none"; }));
    chip.addEventListener("pointerenter", () => focus(own));
    chip.addEventListener("pointerleave", () => focus(null));
    box.addEventListener("focus", () => focus(own));
    box.addEventListener("blur", () => focus(null));
  });
  document.querySelector("#contents").innerHTML = all("main section").map((section) => `<a href="#${section.id}">${section.querySelector("h2").textContent}</a>`).join("");
  root.dataset.ready = "yes";
})();
