"use strict";
// A flame graph drawn for the width of the page: a frame that is clicked fills it, the search marks
// the frames whose name has the text, and the colours say the component, or the difference to the
// graph of another profile.
(() => {
  const box = document.querySelector("#flame");
  if (!box) return;
  const data = JSON.parse(document.querySelector("#frames").textContent);
  const said = document.querySelector("#frame"), search = document.querySelector("#search");
  const reset = document.querySelector("#reset"), found = document.querySelector("#found");
  const colors = document.querySelector("#colors"), change = document.querySelector("#compared");
  const row = 18, letter = 6.7, name = "http://www.w3.org/2000/svg";
  const added = (kind, parent) => parent.appendChild(document.createElementNS(name, kind));
  const svg = added("svg", box);
  svg.setAttribute("role", "img");

  // Each frame begins where the one before it on its level ends, or where its caller begins.
  const drawn = [], begin = [0], whole = Math.max(1, data.frames[2]);
  for (let at = 0; at < data.frames.length; at += 3) {
    const [level, number, cycles] = data.frames.slice(at, at + 3);
    const g = added("g", svg), from = begin[level], share = cycles / whole;
    begin[level] = from + share;
    begin[level + 1] = from;
    drawn.push({
      g, level, from, share, cycles, frame: data.names[number], color: data.colors[data.color[number]],
      other: data.other ? data.other[at / 3] : 0,
      title: added("title", g), rect: added("rect", g), text: added("text", g),
    });
  }
  const all = drawn[0], levels = Math.max(...drawn.map((one) => one.level)) + 1;
  let zoomed = all;

  const layout = () => {
    const width = box.clientWidth, height = levels * row;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    for (const one of drawn) {
      const below = one.level < zoomed.level;
      let left = (one.from - zoomed.from) / zoomed.share, share = one.share / zoomed.share;
      const around = left <= 1e-9 && left + share >= 1 - 1e-9;
      if (below && around) { left = 0; share = 1; }
      const there = below ? around : left > -1e-6 && left + share < 1 + 1e-3;
      one.g.style.display = there && share * width >= 0.3 ? "" : "none";
      if (!there) continue;
      const y = height - (one.level + 1) * row, room = Math.floor((share * width - 4) / letter);
      one.rect.setAttribute("x", left * width);
      one.rect.setAttribute("width", Math.max(0, share * width - 0.5));
      one.rect.setAttribute("y", y);
      one.rect.setAttribute("height", row - 1);
      one.rect.classList.toggle("outer", below);
      one.text.setAttribute("x", left * width + 2);
      one.text.setAttribute("y", y + 13);
      one.text.textContent = one.frame.length <= room ? one.frame
        : room >= 4 ? `${one.frame.slice(0, room - 2)}..` : "";
    }
    reset.disabled = zoomed === all;
  };
  const zoom = (one) => { zoomed = one; said.textContent = one.title.textContent; layout(); };

  const paint = () => {
    const compared = Boolean(colors && colors.value);
    svg.setAttribute("aria-label", data.title + (compared ? `, compared with ${data.against}` : ""));
    for (const one of drawn) {
      const more = one.cycles - one.other, words = `${one.frame}: ${(one.cycles / 10).toFixed(1)} cycles per packet`;
      const pale = Math.round(245 - 165 * Math.min(1, Math.abs(more) / data.largest)).toString(16);
      one.title.textContent = compared ? `${words}, ${more < 0 ? "" : "+"}${(more / 10).toFixed(1)}` : words;
      one.rect.setAttribute("fill", !compared ? one.color : more > 0 ? `#f5${pale}${pale}` : `#${pale}${pale}f5`);
    }
    if (change) change.hidden = !compared;
    document.querySelector("#components").hidden = compared;
    said.textContent = zoomed === all ? "Click a frame to enlarge it." : zoomed.title.textContent;
  };
  // What the colours say is in the address, so that a link shows the same.
  const recall = () => {
    if (colors) colors.value = location.hash === "#difference" ? "difference" : "";
    paint();
  };
  const mark = () => {
    const wanted = search.value.trim().toLowerCase();
    const hits = drawn.filter((one) => wanted && one.frame.toLowerCase().includes(wanted));
    const marked = new Set(hits);
    for (const one of drawn) one.rect.classList.toggle("marked", marked.has(one));
    const outermost = hits.filter((one) => !hits.some((other) => other.level < one.level
      && other.from <= one.from + 1e-9 && other.from + other.share >= one.from + one.share - 1e-9));
    const share = outermost.reduce((sum, one) => sum + one.share, 0);
    found.textContent = !wanted ? "" : hits.length
      ? `${(100 * share).toFixed(1)} % of the cycles have a frame like this` : "no frame has this";
  };
  for (const one of drawn) {
    one.g.addEventListener("click", () => zoom(one));
    one.g.addEventListener("pointerenter", () => { said.textContent = one.title.textContent; });
  }
  reset.addEventListener("click", () => zoom(all));
  search.addEventListener("input", mark);
  window.addEventListener("hashchange", recall);
  if (colors) {
    colors.addEventListener("change", () => {
      history.replaceState(null, "", colors.value ? "#difference" : location.pathname + location.search);
      paint();
    });
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") zoom(all); });
  for (const button of document.querySelectorAll("button[data-frame]")) {
    button.addEventListener("click", () => {
      const mine = drawn.filter((one) => one.frame === button.textContent);
      if (mine.length) zoom(mine.reduce((one, other) => (other.share > one.share ? other : one)));
      box.scrollIntoView({ block: "nearest" });
    });
  }
  document.querySelector("#graph").hidden = false;
  recall();
  new ResizeObserver(layout).observe(box);
  layout();
})();
