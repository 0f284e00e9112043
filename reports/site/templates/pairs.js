// The charts of a pair: specifications of Vega-Lite, made of the figures that stand in the page.
(function () {
  "use strict";
  const row = 30; // pixels of a bar
  const long = 470; // pixels of a place's name, which differs from others at its end
  const whole = (number) => Math.abs(number).toLocaleString("en-US", { maximumFractionDigits: 0 });
  const tip = (field, title) => ({ field: field, type: "nominal", title: title || field });

  function chart(rows, layer) {
    return { width: "container", autosize: { type: "fit-x", contains: "padding" }, data: { values: rows }, layer: layer, height: Math.max(2, rows.length) * row };
  }

  function places(rows) {
    return { field: "where", type: "nominal", sort: rows.map((one) => one.where), title: null };
  }

  // Points with intervals at each place, on the side of the one that is better.
  function ratios(data) {
    const rows = data.rows.map(([where, ratio, low, high, verdict, shown]) => ({ where, ratio, low, high, shown, verdict: data.verdicts[verdict][0] }));
    const y = Object.assign(places(rows), { axis: { labelLimit: long } });
    const x = { type: "quantitative", title: data.axis, scale: { type: "log", nice: false, padding: 12 }, axis: { values: data.ticks, labelOverlap: "greedy", format: ".3~g" } };
    const look = (at) => ({ field: "verdict", type: "nominal", title: null, scale: { domain: data.verdicts.map((one) => one[0]), range: data.verdicts.map((one) => one[at]) }, legend: { orient: "bottom", columns: 3, symbolOpacity: 1 } });
    return chart(rows, [
      { mark: { type: "rule", strokeDash: [4, 3], color: "#7a7a7a" }, encoding: { x: { datum: 1, type: "quantitative" } } },
      { mark: { type: "rule", strokeWidth: 3 }, encoding: { y: y, x: { field: "low", ...x }, x2: { field: "high" }, color: look(1) } },
      { mark: { type: "point", filled: true, size: 140, opacity: 1 }, encoding: { y: y, x: { field: "ratio", ...x }, color: look(1), shape: look(2), tooltip: [tip("where"), tip("shown", data.axis), tip("verdict")] } },
    ]);
  }

  // Bars from one value to the next, between marks at the first and the last.
  function waterfall(data) {
    const [[first, start], [last, end]] = data.ends;
    let at = start;
    const steps = data.steps.map(([part, change]) => {
      const from = at;
      at += change;
      return { where: part + " " + (change < 0 ? "-" : "+") + whole(change), part: part, from: from, to: at, shown: whole(at) };
    });
    const rows = [{ where: first + " " + whole(start), part: first, at: start }, ...steps, { where: last + " " + whole(end), part: last, at: end }];
    const shades = new Map([...data.steps, ...data.ends].map(([part, , shade]) => [part, shade]));
    const y = Object.assign(places(rows), { axis: { labelLimit: long } });
    const x = { type: "quantitative", title: data.axis, scale: { zero: false, padding: 12 }, axis: { tickCount: 5, labelOverlap: "greedy" } };
    const color = { field: "part", type: "nominal", title: null, scale: { domain: Array.from(shades.keys()), range: Array.from(shades.values()) }, legend: null };
    return chart(rows, [
      { transform: [{ filter: "isValid(datum.at)" }], mark: { type: "tick", thickness: 5, size: 22, opacity: 1 }, encoding: { y: y, x: { field: "at", ...x }, color: color } },
      { transform: [{ filter: "isValid(datum.from)" }], mark: { type: "bar", style: "part", height: { band: 0.72 } }, encoding: { y: y, x: { field: "from", ...x }, x2: { field: "to" }, color: color, tooltip: [tip("where", "component"), tip("shown", "so far")] } },
    ]);
  }

  window.pairCharts = { ratios: ratios, waterfall: waterfall };
})();
