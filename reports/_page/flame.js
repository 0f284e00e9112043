"use strict";
// A flame graph that was drawn as SVG, laid out again for the width of the page: a frame that is
// clicked fills it, and the search marks the frames whose name has the text.
(() => {
  const box = document.querySelector("#flame");
  const svg = box && box.querySelector("svg");
  if (!svg) return;
  const said = document.querySelector("#frame"), search = document.querySelector("#search");
  const reset = document.querySelector("#reset"), found = document.querySelector("#found");
  const row = 18, letter = 6.7, name = "http://www.w3.org/2000/svg";
  const drawn = [...svg.querySelectorAll("g")].map((g) => {
    const rect = g.querySelector("rect"), words = g.querySelector("title").textContent;
    let text = g.querySelector("text");
    if (!text) { text = document.createElementNS(name, "text"); g.append(text); }
    const number = (key) => Number(rect.getAttribute(key));
    return {
      g, rect, text, words, frame: words.slice(0, words.lastIndexOf(": ")),
      x: number("x"), width: number("width"), y: number("y"),
    };
  });
  if (!drawn.length) return;
  const all = drawn.reduce((one, other) => (other.width > one.width ? other : one));
  const step = 16, deepest = Math.min(...drawn.map((one) => one.y));
  for (const one of drawn) {
    one.level = Math.round((all.y - one.y) / step);
    one.from = (one.x - all.x) / all.width;
    one.share = one.width / all.width;
  }
  const levels = Math.round((all.y - deepest) / step) + 1;
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
  const zoom = (one) => { zoomed = one; said.textContent = one.words; layout(); };
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
    one.g.addEventListener("pointerenter", () => { said.textContent = one.words; });
  }
  reset.addEventListener("click", () => zoom(all));
  search.addEventListener("input", mark);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") zoom(all); });
  for (const button of document.querySelectorAll("button[data-frame]")) {
    button.addEventListener("click", () => {
      const mine = drawn.filter((one) => one.frame === button.dataset.frame);
      if (mine.length) zoom(mine.reduce((one, other) => (other.share > one.share ? other : one)));
      box.scrollIntoView({ block: "nearest" });
    });
  }
  new ResizeObserver(layout).observe(box);
  box.classList.add("live");
  document.querySelector("#controls").hidden = false;
  zoom(all);
})();
