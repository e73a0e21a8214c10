"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const one = (query, from = document) => from.querySelector(query);
  const all = (query, from = document) => [...from.querySelectorAll(query)];
  const state = { hidden: [], hiddenSeeds: [], focus: "", view: Object.keys(data.axes)[0], bands: one("#bands").value, each: false, points: false };
  const views = {}; // id of a chart -> its Vega view
  const panels = [];

  // Theme: colours are named after an @ in every chart.
  const dark = () => root.dataset.theme === "dark";
  const colours = () => data.themes[dark() ? "dark" : "light"];
  const themed = (spec, extra = {}) => {
    const known = { ...colours(), ...extra };
    return JSON.parse(JSON.stringify(spec), (_, value) =>
      typeof value === "string" && value[0] === "@" && value.slice(1) in known ? known[value.slice(1)] : value);
  };
  const look = () => {
    const ink = colours().ink, faint = colours().faint, text = { labelColor: ink, titleColor: ink };
    const axis = { ...text, domainColor: faint, tickColor: faint, gridColor: faint, gridOpacity: 0.35, titleFontWeight: "normal" };
    return { background: "transparent", font: "system-ui, sans-serif", axis, legend: text, view: { stroke: faint } };
  };
  // Errors only: charts without rows, of which there are some by design, make Vega wonder.
  const menu = { export: true, source: false, compiled: false, editor: false };
  const embed = (place, spec, actions) => vegaEmbed(place, spec, { renderer: "svg", logLevel: 1, actions, config: look(), tooltip: { theme: dark() ? "dark" : "light" } });

  async function chart(id) {
    const place = document.getElementById(id === "learning" ? "learning-chart" : id);
    views[id]?.finalize();
    views[id] = (await embed(place, themed(data.charts[id], { axis: data.axes[state.view] }), menu)).view;
  }
  async function draw() {
    all(".swatch").forEach((swatch, k) => { swatch.style.color = colours()[`c${k}`]; });
    for (const id of Object.keys(data.charts)) await chart(id);
    for (const panel of panels) {
      panel.views.forEach((view) => view.finalize());
      panel.views = [];
      panel.frame = null;
      for (const [k, place] of panel.places.entries()) {
        const picture = data.pictures[k], width = Math.max(110, place.clientWidth - 60);
        const spec = { ...themed(picture.spec, { method: colours()[`c${panel.method}`] }), autosize: { type: "fit-x", contains: "padding" }, width: place.clientWidth, height: width * picture.aspect };
        panel.views.push((await embed(place, spec, false)).view);
      }
    }
    await apply();
    await show();
  }

  // What is shown: every chart takes the signals that it has.
  async function apply() {
    const waiting = Object.entries(views).map(([id, view]) => {
      const known = id === "learning" ? Object.keys(state) : id.startsWith("timeline") ? ["hiddenSeeds"] : [];
      known.forEach((name) => view.signal(name, state[name]));
      return view.runAsync();
    });
    all("figure[data-method]").forEach((figure) => { figure.hidden = state.hidden.includes(data.labels[figure.dataset.method]); });
    all("figure[data-label]").forEach((figure) => { figure.hidden = state.hidden.includes(figure.dataset.label); });
    one("#band-note").textContent = `${data.bands[state.view]}. Lines: rolling mean of ${data.window} evaluations. Bands and means are over all seeds, whichever are ticked.`;
    await Promise.all(waiting);
  }
  const change = (values) => { Object.assign(state, values); return apply(); };

  all("input[data-method]").forEach((box) => {
    const label = data.labels[box.dataset.method], chip = box.closest(".chip");
    box.addEventListener("change", () => change({ hidden: unticked("input[data-method]").map((other) => data.labels[other.dataset.method]) }));
    chip.addEventListener("pointerenter", () => change({ focus: label }));
    chip.addEventListener("pointerleave", () => change({ focus: "" }));
    box.addEventListener("focus", () => change({ focus: label }));
    box.addEventListener("blur", () => change({ focus: "" }));
  });
  const unticked = (query) => all(query).filter((box) => !box.checked);
  all("input[data-seed]").forEach((box) => box.addEventListener("change", () => change({ hiddenSeeds: unticked("input[data-seed]").map((other) => other.dataset.seed) })));
  one("#bands").addEventListener("change", (event) => change({ bands: event.target.value }));
  one("#view").addEventListener("change", async (event) => {
    state.view = event.target.value;
    await chart("learning"); // its axis has another name
    await apply();
  });
  for (const id of ["points", "each"]) one(`#${id}`).addEventListener("change", (event) => change({ [id]: event.target.checked }));

  // The curriculum: one slider over the steps, and in each panel the stage that was in force.
  const slider = one("#step"), play = one("#play"), seed = one("#seed");
  all(".panel").forEach((figure) => panels.push({ figure, method: figure.dataset.method, places: all(".picture", figure), now: one(".now", figure), views: [], frame: null }));
  const rows = (fields, numbers) => {
    const found = [];
    for (let k = 0; k < numbers.length; k += fields.length)
      found.push(Object.fromEntries(fields.map(([name, offset, scale], f) => [name, offset + numbers[k + f] * scale])));
    return found;
  };
  async function show() {
    if (!slider) return;
    const step = Math.round((data.steps * slider.value) / slider.max);
    one("#step-now").textContent = `step ${step.toLocaleString("en")}`;
    slider.setAttribute("aria-valuetext", `step ${step}`);
    await Promise.all(panels.flatMap((panel) => {
      const frames = data.curricula[data.labels[panel.method]][seed.value] ?? [];
      const frame = frames.filter((each) => each.s <= step).at(-1) ?? null;
      if (frame === panel.frame && frame) return [];
      panel.frame = frame;
      const alpha = frame && frame.a !== null ? `, α ${frame.a.toFixed(2)}` : "";
      panel.now.textContent = frame ? `stage ${frame.k}${alpha}${frame.e ? ", exploring for the metric" : ""}` : "nothing kept";
      return panel.views.map((view, k) => view.data("frame", frame ? rows(data.pictures[k].fields, frame.m[k]) : []).runAsync());
    }));
  }
  let timer = 0;
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }
  if (slider) {
    slider.addEventListener("input", show);
    seed.addEventListener("change", show);
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (slider.value === slider.max) slider.value = 0;
      play.textContent = "Pause";
      play.setAttribute("aria-pressed", "true");
      timer = setInterval(() => {
        slider.value = Number(slider.value) + 1;
        show();
        if (slider.value === slider.max) stop();
      }, 50);
    });
  }

  // Tables: a heading sorts; what is not known comes last either way.
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

  // Buttons.
  one("#download")?.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([data.table], { type: "text/csv" }));
    link.download = data.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  all("button[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch { // a page from disk may not be let near the clipboard this way
      getSelection().selectAllChildren(source);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));
  const pause = one("#pause");
  function hold(still) {
    pause.setAttribute("aria-pressed", String(still));
    pause.textContent = still ? "Run the films" : "Stop the films";
    all(".film").forEach((film) => {
      const image = one("img", film);
      one("canvas", film)?.remove();
      image.hidden = still;
      if (!still) return;
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      canvas.getContext("2d").drawImage(image, 0, 0);
      film.append(canvas);
    });
  }
  pause?.addEventListener("click", () => hold(pause.getAttribute("aria-pressed") === "false"));
  one("#theme").addEventListener("click", () => setTheme(!dark()));
  function setTheme(toDark, redraw = true) {
    root.dataset.theme = toDark ? "dark" : "light";
    one("#theme").textContent = toDark ? "Light" : "Dark";
    if (redraw) ready = draw();
  }
  one("#contents").innerHTML = all("main section").map((section) => `<a href="#${section.id}">${one("h2", section).textContent}</a>`).join("");
  let ready, wait = 0;
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches, false);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => setTheme(event.matches));
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(wait);
    wait = setTimeout(() => { ready = draw(); }, 200);
  });
  if (pause && matchMedia("(prefers-reduced-motion: reduce)").matches) addEventListener("load", () => hold(true));
  ready = draw();
  ready.then(() => { root.dataset.ready = "yes"; });
})();
