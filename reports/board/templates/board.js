// The board's page: weights and filters, the ranking that follows from them, and both in the address.
(function () {
  "use strict";
  const board = window.cnibenchBoard, ranking = window.cnibenchRanking;
  const form = document.getElementById("choice"), sets = document.getElementById("sets");
  const names = [...board.dimensions, "policies"];
  const titles = { latency: "latency", throughput: "throughput", cpu: "CPU cost", policies: "policies" };
  const kinds = { cni: "real CNIs", "datapath-model": "models of the datapath" };
  const filters = document.getElementById("filters");

  function make(tag, text, kind) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  }

  function select(name, title, options) {
    const label = make("label", title), box = make("select");
    box.name = name;
    for (const [value, words] of options) { const one = make("option", words); one.value = value; box.append(one); }
    label.append(box);
    filters.append(label);
  }

  const fidelities = Object.keys(kinds).filter((name) => board.cnis.some((cni) => cni.fidelity === name));
  if (fidelities.length) select("fidelity", "Fidelity", fidelities.map((name) => [name, kinds[name]]));
  select("use", "Use case", [["", "all"], ...board.uses.map((words, i) => [words, words]).sort()]);
  for (const [name, title] of Object.entries(board.filters)) {
    const values = Array.from(new Set(board.bundles.map((bundle) => bundle.facts[name]))).sort();
    if (values.length > 1) select(name, title, [["", "all"], ...values.map((value) => [value, value])]);
  }
  const boxes = Array.from(filters.querySelectorAll("select"));
  const sliders = new Map(names.map((name) => [name, form.elements.namedItem("weight-" + name)]));
  const usual = new Map([...boxes, ...sliders.values()].map((box) => [box.name, box.value]));

  function fromAddress() {
    const said = new URLSearchParams(location.hash.slice(1));
    for (const box of [...boxes, ...sliders.values()]) {
      const value = said.has(box.name) ? said.get(box.name) : usual.get(box.name);
      if (box.tagName === "SELECT" && !Array.from(box.options).some((one) => one.value === value)) continue;
      box.value = value;
    }
  }

  function toAddress() {
    const said = new URLSearchParams();
    for (const box of [...boxes, ...sliders.values()]) if (box.value !== usual.get(box.name)) said.set(box.name, box.value);
    const text = said.toString();
    if (text || location.hash.includes("=")) history.replaceState(null, "", "#" + (text || "ranking"));
  }

  function value(name) { const box = boxes.find((one) => one.name === name); return box ? box.value : ""; }
  function percent(share) { return (100 * share).toFixed(share > 0.995 && share < 0.9995 ? 1 : 0) + " %"; }

  function row(one, count, shown) {
    const cni = board.cnis[one.cni], line = make("tr");
    const rank = make("td", one.low === one.high ? String(one.low) : one.low + "–" + one.high, "rank");
    const span = make("span", undefined, "span"), mark = make("i");
    mark.style.left = (100 * (one.low - 1)) / count + "%";
    mark.style.width = (100 * (one.high - one.low + 1)) / count + "%";
    span.append(mark);
    rank.append(span);
    const who = make("th", cni.title, "who");
    who.scope = "row";
    const score = make("td", undefined, "score"), link = make("a"), box = make("span"), bar = make("span", undefined, "bar");
    link.href = board.bundles[one.bundles[0]].page + "#figures";
    link.setAttribute("aria-label", cni.title + ": " + percent(one.score) + "; data and command");
    bar.style.width = 100 * one.score + "%";
    bar.style.background = cni.color;
    box.append(bar);
    link.append(box, make("span", percent(one.score), "number"));
    score.append(link);
    line.append(rank, who, score);
    for (const name of shown) line.append(make("td", name === "policies" ? cni.policies + " of " + board.policies : percent(one.parts[name]), "number"));
    const where = make("td"), more = make("details");
    const beds = new Set(one.bundles.map((i) => board.bundles[i].testbed));
    more.append(make("summary", one.bundles.length + (one.bundles.length === 1 ? " run" : " runs") + ", " + beds.size + (beds.size === 1 ? " testbed" : " testbeds")));
    const list = make("ul");
    for (const i of one.bundles.slice(0, 50)) {
      const bundle = board.bundles[i], item = make("li"), to = make("a", bundle.testbed + ", " + bundle.finished);
      to.href = bundle.page;
      item.append(to, bundle.failed ? " (" + bundle.failed + " failed samples)" : "");
      list.append(item);
    }
    if (one.bundles.length > 50) list.append(make("li", "and " + (one.bundles.length - 50) + " more: see the bundles below"));
    more.append(list);
    where.append(more);
    line.append(where);
    return line;
  }

  function table(set, shown) {
    const region = make("div", undefined, "scroll"), grid = make("table", undefined, "ranking"), head = make("thead"), line = make("tr"), body = make("tbody");
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", "Ranking of " + set.length + " CNIs");
    for (const title of ["rank", "CNI", "score", ...shown.map((name) => titles[name]), "data and commands"]) { const cell = make("th", title); cell.scope = "col"; line.append(cell); }
    head.append(line);
    for (const one of set) body.append(row(one, set.length, shown));
    grid.append(head, body);
    region.append(grid);
    return region;
  }

  // What to change so that something can be ranked; measured are the dimensions that have a weight and figures.
  function advice(measured) {
    if (names.every((name) => sliders.get(name).value === "0")) return "give something a weight";
    if (measured.length < 2) return "choose more runs";
    return "no two CNIs were compared in all of " + measured.map((name) => titles[name]).join(", ") + "; set the weight of one of these to 0, or choose more runs";
  }

  function draw() {
    const weights = {};
    for (const [name, slider] of sliders) {
      weights[name] = Number(slider.value);
      form.elements.namedItem("said-" + name).value = slider.value === "0" ? "off" : "× " + slider.value;
    }
    const facts = boxes.filter((box) => box.name in board.filters && box.value);
    const wanted = board.bundles.map((bundle) => facts.every((box) => bundle.facts[box.name] === box.value));
    const use = value("use"), fidelity = value("fidelity");
    const chosen = {
      bundle: (i) => wanted[i],
      use: (i) => !use || board.uses[i] === use,
      cni: (i) => board.cnis[i].fidelity === fidelity
    };
    const found = ranking.rank(board, chosen, weights);
    const shown = names.filter((name) => weights[name] > 0 && !found.missing.includes(name));
    sets.replaceChildren(...found.sets.map((set) => table(set, shown)));
    sets.querySelectorAll("table").forEach(window.cnibenchCopy);
    const runs = new Set();  // those with a figure of what is chosen
    for (const [bundle, , of, , effects] of board.places) {
      if (chosen.bundle(bundle) && chosen.use(of) && effects.some(([cni]) => chosen.cni(cni))) runs.add(bundle);
    }
    const said = [runs.size + " of " + board.bundles.length + " runs chosen"];
    document.getElementById("models").hidden = fidelity !== "datapath-model";
    const count = found.missing.length === 1 ? "its weight does not count" : "their weights do not count";
    if (found.missing.length) said.push("there is no figure of " + found.missing.map((name) => titles[name]).join(" and ") + " here, so " + count);
    if (found.sets.length > 1) said.push("CNIs of different tables were never measured together");
    if (found.alone.length) said.push("not ranked, for lack of a figure or of another CNI in the same run: " + Array.from(new Set(found.alone.map((cni) => board.cnis[cni].title))).join(", "));
    if (!found.sets.length) said.push("nothing can be ranked: " + advice(shown.filter((name) => name !== "policies")));
    document.getElementById("said").textContent = said.join("; ") + ".";
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { draw(); toAddress(); });
  window.addEventListener("hashchange", () => { fromAddress(); draw(); });
  fromAddress();
  draw();
})();
