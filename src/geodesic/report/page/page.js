"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const one = (query, from = document) => from.querySelector(query);
  const all = (query, from = document) => [...from.querySelectorAll(query)];
  const state = { hidden: [], hiddenSeeds: [], focus: "", view: Object.keys(data.views)[0], bands: one("#bands").value, each: false, points: false, level: one("#level").checked };
  const views = {}; // id of a chart -> its Vega view

  // Theme: colours are CSS variables for the page, values for the charts.
  const dark = () => root.dataset.theme === "dark";
  const colours = () => data.themes[dark() ? "dark" : "light"];

  // Charts are Vega-Lite. A table comes as the names of its columns and its rows.
  const values = ({ columns, rows }) => rows.map((row) => Object.fromEntries(columns.map((name, k) => [name, row[k]])));
  const quantity = (field, more = {}) => ({ field, type: "quantitative", ...more });
  const name = (field, more = {}) => ({ field, type: "nominal", ...more });
  const steps = (field) => quantity(field, { title: "environment steps", axis: { format: "~s", tickCount: 6 }, scale: { nice: false } });
  const params = (...names) => names.map((each) => ({ name: each, value: state[each] }));
  const seedShown = "indexof(hiddenSeeds, toString(datum.seed)) < 0";

  function learning() {
    const known = colours(), shown = "indexof(hidden, datum.label) < 0", inFocus = "focus === '' || focus === datum.label";
    const x = steps("step"), y = quantity("middle", { title: data.views[state.view].axis, scale: { zero: false } });
    const color = name("label", { scale: { domain: data.labels, range: data.labels.map((_, k) => known[`c${k}`]) }, legend: null });
    const strokeDash = name("label", { scale: { domain: data.labels, range: data.dashes }, legend: null });
    const opacity = { condition: { test: inFocus, value: 1 }, value: 0.15 };
    const curves = (mark, encoding, ...tests) => ({ data: { name: "curves" }, mark, encoding: { x, ...encoding }, transform: [`${shown} && datum.view === view`, ...tests].map((filter) => ({ filter })) });
    const seeds = (mark, encoding, ...tests) => ({ data: { name: "seeds" }, mark, encoding: { x, color, ...encoding }, transform: [`each && ${shown} && ${seedShown} && datum.kind === split(view, ' ')[1]`, ...tests].map((filter) => ({ filter })) });
    const tooltip = [
      name("label", { title: "method" }), quantity("step", { format: ",d" }), quantity("middle", { title: "smoothed", format: ".4g" }),
      quantity("low", { format: ".4g" }), quantity("high", { format: ".4g" }), quantity("raw", { title: "before smoothing", format: ".4g" }),
    ];
    const layer = [
      curves({ type: "area", opacity: 0.15 }, { y: quantity("low"), y2: { field: "high" }, color }, "bands === 'all' || (bands === 'one' && focus === datum.label)"),
      seeds({ type: "line", strokeWidth: 0.8, opacity: 0.45 }, { y: quantity("smooth"), detail: name("seed"), tooltip: [name("label"), name("seed"), quantity("step"), quantity("smooth")] }),
      seeds({ type: "circle", size: 10, opacity: 0.35 }, { y: quantity("raw") }, "points"),
      curves({ type: "line", strokeWidth: 2.4 }, { y, color, strokeDash, opacity }),
      curves({ type: "circle", size: 18 }, { y: quantity("raw"), color, opacity }, "points"),
      curves({ type: "circle", size: 90, opacity: 0.001 }, { y, tooltip }),
    ];
    if (data.solved !== null) {
      const level = (mark, encoding) => ({ data: { values: [{ y: data.solved, text: data.level }] }, transform: [{ filter: "level && split(view, ' ')[1] === 'scores'" }], mark: { ...mark, color: known.ink }, encoding: { y: quantity("y"), ...encoding } });
      layer.push(level({ type: "rule", strokeDash: [3, 3] }, {}));
      layer.push(level({ type: "text", align: "left", baseline: "bottom", dy: -2 }, { x: { value: 4 }, text: name("text") }));
    }
    const datasets = { curves: values(data.curves), seeds: values(data.seed_curves) };
    return { width: "container", height: 380, datasets, params: params(...Object.keys(state)), layer };
  }

  // One tick for each seed: where some solve the task and others fail it, no mean describes them.
  function finals() {
    const rows = values(data.finals), known = colours();
    const color = name("label", { scale: { domain: data.labels, range: data.labels.map((_, k) => known[`c${k}`]) }, legend: null });
    const x = quantity("final", { title: "final score on the target", scale: { zero: false } });
    const y = name("label", { title: null, sort: data.labels, axis: { labelLimit: 160 } });
    const tooltip = [name("label", { title: "method" }), name("seed"), quantity("final", { format: ".4g" })];
    const layer = [{ data: { values: rows }, transform: [{ filter: seedShown }, { filter: "indexof(hidden, datum.label) < 0" }], mark: { type: "tick", thickness: 2.5, size: 16, opacity: 0.75 }, encoding: { x, y, color, tooltip } }];
    if (data.solved !== null) layer.push({ data: { values: [{ x: data.solved }] }, transform: [{ filter: "level" }], mark: { type: "rule", strokeDash: [3, 3], color: known.ink }, encoding: { x: quantity("x") } });
    return { width: "container", height: 24 * data.labels.length, params: params("hidden", "hiddenSeeds", "level"), layer };
  }

  function timeline({ table, height }) {
    const known = colours(), last = Math.max(...table.rows.map((row) => row[table.columns.indexOf("end")]));
    const y = name("seed", { title: "seed", sort: null });
    const color = name("ended", { scale: { domain: data.reasons, range: data.reasons.map((_, k) => known[`r${k}`]) }, legend: null });
    const tooltip = [name("seed"), quantity("stage"), quantity("start", { format: ",d" }), quantity("end", { format: ",d" }), quantity("alpha"), name("ended")];
    const words = { calculate: "'α ' + format(datum.alpha, '.2~f')", as: "words" }, middle = { calculate: "(datum.start + datum.end) / 2", as: "middle" };
    const layer = [
      { mark: { type: "bar", stroke: known.page, strokeWidth: 0.8 }, encoding: { x: steps("start"), x2: { field: "end" }, y, color, tooltip } },
      { mark: { type: "text", fontSize: 9, color: known.onbar, limit: 60 }, encoding: { x: quantity("middle"), y, text: name("words") }, transform: [{ filter: `(datum.end - datum.start) * width > ${36 * last}` }, middle, words] },
    ];
    return { width: "container", height, data: { values: values(table) }, transform: [{ filter: seedShown }], params: params("hiddenSeeds"), layer };
  }

  function distance(table) {
    const y = quantity("distance", { title: "to target", scale: { zero: true }, axis: { tickCount: 3 } });
    const tooltip = [name("seed"), quantity("step", { format: ",d" }), ...["alpha", "distance", "moved"].map((each) => quantity(each, { format: ".2f" }))];
    const mark = { type: "line", interpolate: "step-after", strokeWidth: 1.2, opacity: 0.7 };
    const encoding = { x: steps("step"), y, detail: name("seed"), color: { value: colours().r0 }, tooltip };
    return { width: "container", height: 70, data: { values: values(table) }, transform: [{ filter: seedShown }], params: params("hiddenSeeds"), mark, encoding };
  }

  function mixture(table) {
    const rows = values(table), x = steps("step"), range = ["#4477aa", "#ee9944", "#a8adb8"];
    const color = name("part", { sort: null, scale: { range }, legend: { title: null, orient: "top" } });
    const tooltip = [name("part"), quantity("step", { format: ",d" }), quantity("value", { format: ".3~g" })];
    const chart = (kind, height, mark, y) => ({ width: "container", height, data: { values: rows.filter((row) => row.kind === kind) }, mark, encoding: { x, y, color, tooltip } });
    const area = chart("share", 70, { type: "area", interpolate: "step-after" }, quantity("value", { title: "share", stack: "normalize", axis: { format: "%", tickCount: 3 } }));
    const lines = chart("score", 90, { type: "line" }, quantity("value", { title: "score", scale: { zero: false } }));
    return [area, lines].filter((each) => each.data.values.length);
  }

  const chartConfig = () => {
    const ink = colours().ink, faint = colours().faint, text = { labelColor: ink, titleColor: ink };
    const axis = { ...text, domainColor: faint, tickColor: faint, gridColor: faint, gridOpacity: 0.35, titleFontWeight: "normal" };
    return { background: "transparent", font: "system-ui, sans-serif", axis, legend: text, view: { stroke: faint } };
  };
  const actions = { export: true, source: false, compiled: false, editor: false };
  async function embed(id, spec) {
    views[id]?.finalize();
    // Errors only: Vega warns about charts without rows, which some are by design.
    const options = { mode: "vega-lite", renderer: "svg", logLevel: 1, actions, config: chartConfig(), tooltip: { theme: dark() ? "dark" : "light" } };
    views[id] = (await vegaEmbed(document.getElementById(id), spec, options)).view;
  }
  async function draw() {
    for (const [name, colour] of Object.entries(colours())) root.style.setProperty(`--${name}`, colour);
    await embed("learning-chart", learning());
    if (one("#finals-chart")) await embed("finals-chart", finals());
    for (const [k, each] of data.timelines.entries()) await embed(`timeline-${k}`, timeline(each));
    for (const [k, each] of data.distances.entries()) if (each) await embed(`distance-${k}`, distance(each));
    for (const [k, each] of data.mixtures.entries()) {
      if (!each) continue;
      const place = document.getElementById(`mixture-${k}`);
      place.replaceChildren();
      for (const [j, chart] of mixture(each).entries()) {
        const part = document.createElement("div");
        part.id = `mixture-${k}-${j}`;
        part.className = "chart";
        place.append(part);
        await embed(part.id, chart);
      }
    }
    await apply();
  }

  // Every chart takes the signals that it has.
  async function apply() {
    const waiting = Object.entries(views).map(([id, view]) => {
      const known = id === "learning-chart" ? Object.keys(state) : id === "finals-chart" ? ["hidden", "hiddenSeeds", "level"] : /^(timeline|distance)/.test(id) ? ["hiddenSeeds"] : [];
      known.forEach((name) => view.signal(name, state[name]));
      return view.runAsync();
    });
    all("figure[data-method]").forEach((figure) => { figure.hidden = state.hidden.includes(data.labels[figure.dataset.method]); });
    all("figure[data-label]").forEach((figure) => { figure.hidden = state.hidden.includes(figure.dataset.label); });
    one("#band-note").textContent = `${data.views[state.view].caption}. Lines: ${data.smoothing}. Bands and means are over all seeds, whichever are ticked.`;
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
    await embed("learning-chart", learning()); // its axis has another name
    await apply();
  });
  for (const id of ["points", "each", "level"]) one(`#${id}`).addEventListener("change", (event) => change({ [id]: event.target.checked }));

  // The curriculum: one slider over the steps, and in each panel the stage in force. The SVG of a panel has its axes,
  // walls, goals and target; the contexts of a stage are added to it.
  const slider = one("#step"), play = one("#play"), seed = one("#seed");
  const rows = (fields, numbers) => {
    const found = [];
    for (let k = 0; k < numbers.length; k += fields.length)
      found.push(Object.fromEntries(fields.map(([name, offset, scale], f) => [name, offset + numbers[k + f] * scale])));
    return found;
  };
  const viridis = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
  const digits = (value) => Number(value.toPrecision(4));
  const percent = (value) => `${(100 * value).toFixed(1)} % of the mass`;
  const element = (name, attributes, title) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    made.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "title")).textContent = title;
    return made;
  };
  const mark = {
    dots: (panel, row, colour) => {
      const [factor, least, most] = panel.area, moves = row.progress >= 0;
      const radius = Math.sqrt(Math.min(Math.max(factor * row.fraction, least), most) / Math.PI);
      const fill = moves ? viridis[Math.round(row.progress * (viridis.length - 1))] : colour;
      const word = (value, names) => (names ? names[value] : digits(value));
      const title = `${word(row.x, panel.names[0])}, ${word(row.y, panel.names[1])}: ${percent(row.fraction)}${moves ? `, progress ${row.progress.toFixed(2)}` : ""}`;
      return element("circle", { cx: across(panel, row.x), cy: down(panel, row.y), r: radius, style: `fill: ${fill}; opacity: 0.65; stroke: var(--faint); stroke-width: ${moves ? 0.3 : 0}` }, title);
    },
    bars: (panel, row, colour) => {
      const title = `${panel.names ? panel.names[row.x] : digits(row.x)}: ${percent(row.fraction)}`;
      return box(panel, [row.x + panel.left, row.x + panel.right], [row.fraction, 0], `fill: ${colour}; opacity: 0.6`, title);
    },
    cells: (panel, row) => {
      const shade = `fill: color-mix(in oklab, var(--heat1) ${100 * Math.sqrt(row.fraction)}%, var(--heat0))`;
      return box(panel, [row.column - 0.5, row.column + 0.5], [row.row - 0.5, row.row + 0.5], shade, `row ${row.row}, column ${row.column}: ${percent(row.fraction)}`);
    },
  };
  const across = (panel, value) => panel.x[0] * value + panel.x[1];
  const down = (panel, value) => panel.y[0] * value + panel.y[1];
  const box = (panel, [left, right], [top, bottom], style, title) => {
    const x = across(panel, left), y = down(panel, top);
    return element("rect", { x, y, width: across(panel, right) - x, height: down(panel, bottom) - y, style }, title);
  };
  const figures = all(".panel").map((figure) => ({ figure, method: figure.dataset.method, now: one(".now", figure), frame: null, groups: all(".picture", figure).map((place, k) => {
    // Names within an SVG must differ from those of the other panels.
    const own = `p${figure.dataset.method}-${k}-`;
    place.innerHTML = data.panels[k].svg.replaceAll('id="', `id="${own}`).replaceAll('href="#', `href="#${own}`).replaceAll("url(#", `url(#${own}`);
    const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
    group.classList.add("contexts");
    one("svg", place).append(group);
    return group;
  }) }));
  function show() {
    if (!slider) return;
    const step = Math.round((data.steps * slider.value) / slider.max);
    one("#step-now").textContent = `step ${step.toLocaleString("en")}`;
    slider.setAttribute("aria-valuetext", `step ${step}`);
    for (const panel of figures) {
      const frames = data.curricula[data.labels[panel.method]][seed.value] ?? [];
      const frame = frames.filter((each) => each.step <= step).at(-1) ?? null;
      if (frame === panel.frame && frame) continue;
      panel.frame = frame;
      const alpha = frame && frame.alpha !== null ? `, α ${frame.alpha.toFixed(2)}` : "";
      panel.now.textContent = frame ? `stage ${frame.stage}${alpha}${frame.explores ? ", exploring" : ""}` : "no stage recorded";
      panel.groups.forEach((group, k) => {
        const description = data.panels[k];
        const marks = frame ? rows(description.fields, frame.rows[k]) : [];
        group.replaceChildren(...marks.map((row) => mark[description.kind](description, row, `var(--c${panel.method})`)));
      });
    }
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

  // Once, when the panels first come into view, they play by themselves.
  if (slider && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      if (!timer && slider.value === "0") play.click();
    }, { threshold: 0.5 });
    seen.observe(one("#curriculum .panel"));
    slider.addEventListener("pointerdown", () => { seen.disconnect(); stop(); });
  }

  // Buttons.
  one("#columns")?.addEventListener("click", (event) => {
    const short = one("#summary-table").classList.toggle("short");
    event.target.setAttribute("aria-pressed", String(!short));
    event.target.textContent = short ? "All columns" : "Fewer columns";
  });
  all('a[href="#glossary"]').forEach((link) => link.addEventListener("click", () => { one("#glossary").open = true; }));
  one("#download")?.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([data.table], { type: "text/csv" }));
    link.download = data.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
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
  show();
  ready = draw();
  ready.then(() => { root.dataset.ready = "yes"; });
})();
