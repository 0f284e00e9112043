// Charts, drawn when they come into view and again when colours or filters change; filters; sorting. Nothing is loaded from anywhere.
(function () {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const form = document.getElementById("filters");
  const drawn = new Map();

  function theme(night) {
    const text = night ? "#e8eaee" : "#1a1c20";
    const line = night ? "#383d47" : "#d4d8df";
    const narrow = window.innerWidth < 520;
    return {
      aria: false, background: null, font: "system-ui, sans-serif", view: { stroke: null },
      axis: { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: 190 },
      legend: { labelColor: text, titleColor: text, labelFontSize: 12, labelLimit: narrow ? 110 : 240, symbolLimit: 60, columns: narrow ? 2 : 3 },
      style: { interval: { color: night ? "#ffffff" : "#1a1a1a", strokeWidth: 2.5 }, part: { stroke: night ? "#14161a" : "#555b66", strokeWidth: 0.6 } }
    };
  }

  function chosen() {
    if (!form) return null;
    const boxes = Array.from(form.elements.namedItem("profile") ? form.querySelectorAll("input[name=profile]") : []);
    return boxes.every((box) => box.checked) ? null : new Set(boxes.filter((box) => box.checked).map((box) => box.value));
  }

  // The names of places in lines of what fits into the width of a phone.
  function wrap(spec, axis, room) {
    if (axis.labelLimit <= room) return;
    const most = Math.floor(room / 7.5); // characters of a line, which ends at a space, or else behind a hyphen
    const part = "(.{1," + most + "}(?= |$)|.{0," + (most - 1) + "}-) *";
    const lines = (name) => name.replace(new RegExp(part, "g"), "$1\n").trim().split("\n").length;
    axis.labelLimit = room;
    axis.labelExpr = "split(trim(replace(datum.label, regexp('" + part + "', 'g'), '$1\\n')), '\\n')";
    const places = Array.from(new Set(spec.data.values.map((row) => row.where)));
    spec.height = places.length * (14 * Math.max(1, ...places.map(lines)) + 12);
  }

  // What a chart's figure has: a specification, or figures that pairs.js makes one of.
  function specification(plot) {
    const found = JSON.parse(plot.parentElement.querySelector("script").textContent);
    return found.form ? window.pairCharts[found.form](found) : found;
  }

  function embed(where, spec, look, night) {
    const options = { mode: "vega-lite", actions: false, renderer: "svg", ast: true, logLevel: 1, defaultStyle: false, config: look, tooltip: { theme: night ? "dark" : "light" } };
    return window.vegaEmbed(where, spec, options);
  }

  function draw(plot) {
    const spec = specification(plot);
    const profiles = chosen();
    if (profiles) spec.data.values = spec.data.values.filter((row) => row.profile === undefined || profiles.has(row.profile));
    if (typeof spec.height === "number" && (spec.layer ? spec.layer[0].mark.type === "bar" : true)) {
      spec.height = 30 * Math.max(2, new Set(spec.data.values.map((row) => row.profile)).size);
    }
    const look = theme(dark.matches), legend = look.legend.columns;
    JSON.stringify(spec, (key, value) => {
      if (value && value.legend && value.scale) {
        const long = value.scale.domain.some((name) => name.length > 14);
        value.legend.columns = long && legend === 2 ? 1 : legend;
        if (value.legend.columns === 1) look.legend.labelLimit = 240; // the whole width
      }
      if (value && value.labelLimit) wrap(spec, value, 0.4 * plot.clientWidth);
      return value;
    });
    const turn = (drawn.get(plot) || { turn: 0 }).turn + 1;
    drawn.set(plot, { turn: turn });
    return embed(plot.firstElementChild, spec, look, dark.matches).then((result) => {
      const latest = drawn.get(plot);
      if (latest.turn !== turn) { result.finalize(); return; }
      latest.view = result;
      plot.dataset.ready = "yes";
    });
  }

  // A chart without a file becomes one on demand: on white, as wide as the others.
  function save(plot, kind) {
    const figure = plot.parentElement;
    const spec = Object.assign(specification(plot), { width: 720, title: { text: figure.querySelector("figcaption").textContent, anchor: "start" } });
    const look = Object.assign(theme(false), { background: "#ffffff", font: "sans-serif" });
    return embed(document.createElement("div"), spec, look, false).then((result) => {
      const made = kind === "SVG"
        ? result.view.toSVG().then((text) => URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })))
        : result.view.toImageURL("png", 2);
      return made.then((address) => {
        const link = document.createElement("a");
        link.href = address;
        link.download = figure.id + "." + kind.toLowerCase();
        link.click();
        result.finalize();
      });
    });
  }

  if (window.vegaEmbed) document.querySelectorAll("figure > .picture[hidden]").forEach((line) => {
    const figure = line.parentElement;
    line.append("Picture: ");
    for (const kind of ["SVG", "PNG"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind;
      button.setAttribute("aria-label", kind + " of: " + figure.querySelector("figcaption").textContent);
      button.addEventListener("click", () => save(figure.querySelector(".plot"), kind));
      line.append(button, " ");
    }
    line.hidden = false;
  });

  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { watch.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "300px" });
  if (window.vegaEmbed) document.querySelectorAll(".plot").forEach((plot) => watch.observe(plot));

  function again() {
    for (const [plot, state] of Array.from(drawn)) {
      if (state.view) state.view.finalize();
      delete plot.dataset.ready;
      draw(plot);
    }
  }
  dark.addEventListener("change", again);

  function fit(element, name, value) { return !value || !(name in element.dataset) || element.dataset[name] === value; }

  function filter(redraw) {
    const wanted = Array.from(form.querySelectorAll("select.where"));
    const profiles = chosen();
    let shown = 0;
    document.querySelectorAll("[data-where]").forEach((element) => {
      element.hidden = !wanted.every((select) => fit(element, select.name, select.value));
      if (!element.hidden && (element.matches(".card") || element.matches("section"))) shown += 1;
    });
    document.querySelectorAll("tr[data-profile]").forEach((row) => {
      row.hidden = Boolean(profiles) && known.has(row.dataset.profile) && !profiles.has(row.dataset.profile);
    });
    const matrix = document.getElementById("matrix");
    const scale = form.elements.namedItem("scale");
    if (matrix && scale) matrix.dataset.scale = scale.value;
    document.getElementById("shown").textContent = shown + (shown === 1 ? " comparison" : " comparisons") + (profiles ? ", " + profiles.size + " profiles" : "") + " shown";
    if (redraw) again();
  }

  // What is chosen is in the address, so that a link shows the same.
  function remember() {
    const said = new URLSearchParams();
    form.querySelectorAll("select").forEach((select) => { if (select.selectedIndex > 0) said.set(select.name, select.value); });
    const profiles = chosen();
    if (profiles) (profiles.size ? Array.from(profiles) : [""]).forEach((label) => said.append("profile", label));
    const text = said.toString();
    if (text || location.hash.includes("=")) history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
  }

  function recall() {
    if (location.hash && !location.hash.includes("=")) return;
    const said = new URLSearchParams(location.hash.slice(1));
    form.querySelectorAll("select").forEach((select) => {
      const at = Array.from(select.options).findIndex((option) => option.value === said.get(select.name));
      select.selectedIndex = Math.max(at, 0);
    });
    const profiles = new Set(said.getAll("profile"));
    form.querySelectorAll("input[name=profile]").forEach((box) => { box.checked = !profiles.size || profiles.has(box.value); });
  }

  const known = new Set();
  if (form) {
    form.querySelectorAll("input[name=profile]").forEach((box) => known.add(box.value));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", (event) => { remember(); filter(event.target.name === "profile"); });
    window.addEventListener("hashchange", () => { recall(); filter(true); });
    recall();
    filter(chosen() !== null);
  }

  document.querySelectorAll("button.sort").forEach((button) => {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const at = Array.from(head.parentNode.children).indexOf(head);
      const body = head.closest("table").tBodies[0];
      const value = (row) => Number(row.cells[at].dataset.value);
      const down = head.getAttribute("aria-sort") !== "descending";
      const rows = Array.from(body.rows).sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)));
      head.parentNode.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.forEach((row) => body.appendChild(row));
    });
  });
})();
