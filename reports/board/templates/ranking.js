// The ranking: differences between pairs of CNIs, combined over places, bundles and testbeds, and what they say about ranks.
//
// Order: least squares over all pairs that were measured together (HodgeRank: Jiang, Lim, Yao and Ye, 2011).
// Ranks: a CNI is behind each that is proven better and before each that is proven worse, with all pairs tested at once,
// so that all intervals hold together with 95 % confidence (Mogstad, Romano, Shaikh and Wilhelm, 2024).
(function (root) {
  "use strict";

  // Adds a difference of one place to its pair, dimension, testbed and bundle.
  function add(pairs, key, dimension, testbed, bundle, mean, variance, freedom) {
    let pair = pairs.get(key);
    if (!pair) pairs.set(key, (pair = new Map()));
    let beds = pair.get(dimension);
    if (!beds) pair.set(dimension, (beds = new Map()));
    let runs = beds.get(testbed);
    if (!runs) beds.set(testbed, (runs = new Map()));
    if (!runs.has(bundle)) runs.set(bundle, []);
    runs.get(bundle).push({ mean: mean, variance: variance, freedom: freedom });
  }

  const sum = (all, of) => all.reduce((before, one) => before + of(one), 0);

  // Those whose error is known, if there are any: a run of one block has none.
  function usable(all) {
    const known = all.filter((one) => Number.isFinite(one.variance));
    return known.length ? known : all;
  }

  // Degrees of freedom of a sum of independent estimates (Satterthwaite, 1946; Welch, 1947).
  function freedomOf(all) {
    const total = sum(all, (one) => one.variance);
    const parts = sum(all, (one) => one.variance * one.variance / one.freedom);
    return Number.isFinite(total) && parts > 0 ? total * total / parts : Math.min(...all.map((one) => one.freedom));
  }

  function averaged(all) {
    const used = usable(all), n = used.length;
    return { mean: sum(used, (one) => one.mean) / n, variance: sum(used, (one) => one.variance) / (n * n), freedom: freedomOf(used) };
  }

  // One difference of all testbeds: each counts once, however many bundles or places it has. Where testbeds differ more
  // among each other than within, that is the uncertainty.
  function pooled(beds) {
    const found = usable(Array.from(beds.values(), (runs) => averaged(Array.from(runs.values(), averaged))));
    const all = averaged(found), n = found.length;
    if (n < 2) return all;
    const between = sum(found, (one) => (one.mean - all.mean) * (one.mean - all.mean)) / (n - 1) / n;
    return between > all.variance ? { mean: all.mean, variance: between, freedom: n - 1 } : all;
  }

  // Positions x that are nearest to the differences x[a] - x[b] of all edges; their sum is 0.
  function positions(count, edges) {
    const rows = Array.from({ length: count }, () => new Array(count + 1).fill(0));
    for (let i = 0; i < count; i++) for (let j = 0; j < count; j++) rows[i][j] = 1 / count;
    for (const edge of edges) {
      rows[edge.a][edge.a] += 1; rows[edge.b][edge.b] += 1;
      rows[edge.a][edge.b] -= 1; rows[edge.b][edge.a] -= 1;
      rows[edge.a][count] += edge.mean; rows[edge.b][count] -= edge.mean;
    }
    for (let i = 0; i < count; i++) {
      let best = i;
      for (let j = i + 1; j < count; j++) if (Math.abs(rows[j][i]) > Math.abs(rows[best][i])) best = j;
      [rows[i], rows[best]] = [rows[best], rows[i]];
      for (let j = 0; j < count; j++) {
        if (j === i) continue;
        const factor = rows[j][i] / rows[i][i];
        if (factor) for (let k = i; k <= count; k++) rows[j][k] -= factor * rows[i][k];
      }
    }
    return rows.map((row, i) => row[count] / row[i]);
  }

  function quantile(board, freedom, count) {
    const row = board.quantiles[Math.max(1, Math.min(board.quantiles.length, Math.floor(freedom))) - 1];
    return row[Math.max(0, Math.min(row.length - 1, count - 2))];
  }

  // Sets of CNIs that pairs join: those of different sets were never measured together.
  function joined(cnis, edges) {
    const parent = new Map(cnis.map((cni) => [cni, cni]));
    const top = (cni) => { while (parent.get(cni) !== cni) cni = parent.get(cni); return cni; };
    for (const edge of edges) parent.set(top(edge.a), top(edge.b));
    const sets = new Map();
    for (const cni of cnis) sets.set(top(cni), [...(sets.get(top(cni)) || []), cni]);
    return Array.from(sets.values()).filter((set) => set.length > 1).sort((a, b) => b.length - a.length);
  }

  // chosen: {bundle(index), use(index), cni(index)} say what counts; weights: dimension or "policies" to a number from 0.
  // Gives {sets: [[{cni, low, high, score, parts, bundles}, best first], ...], alone: [cni], missing: [dimension]}.
  function rank(board, chosen, weights) {
    const pairs = new Map(), seen = new Map();
    const size = board.cnis.length;
    for (const [bundle, dimension, use, blocks, all] of board.places) {
      if (!chosen.bundle(bundle) || !chosen.use(use)) continue;
      const effects = all.filter((one) => chosen.cni(one[0]));
      const testbed = board.bundles[bundle].testbed;
      for (const [a, meanA, varianceA] of effects) {
        if (!seen.has(a)) seen.set(a, new Set());
        seen.get(a).add(bundle);
        for (const [b, meanB, varianceB] of effects) {
          if (a >= b) continue;
          const variance = varianceA === null || varianceB === null ? Infinity : varianceA + varianceB;
          add(pairs, a * size + b, dimension, testbed, bundle, meanA - meanB, variance, blocks - 1);
        }
      }
    }
    const measured = new Set();
    for (const pair of pairs.values()) for (const dimension of pair.keys()) measured.add(dimension);
    const wanted = board.dimensions.map((name, i) => i).filter((i) => weights[board.dimensions[i]] > 0);
    const used = wanted.filter((i) => measured.has(i));
    const policies = weights.policies || 0;
    const total = used.reduce((sum, i) => sum + weights[board.dimensions[i]], policies);
    const edges = [];
    for (const [key, pair] of pairs) {
      if (!total || !used.every((i) => pair.has(i))) continue;
      const a = Math.floor(key / size), b = key % size;
      const edge = { a: a, b: b, mean: 0, variance: 0, freedom: Infinity, parts: new Map() }, terms = [];
      for (const i of used) {
        const one = pooled(pair.get(i)), share = weights[board.dimensions[i]] / total;
        edge.mean += share * one.mean;
        terms.push({ variance: share * share * one.variance, freedom: one.freedom });
        edge.parts.set(i, one.mean);
      }
      if (terms.length) {
        edge.variance = sum(terms, (one) => one.variance);
        edge.freedom = freedomOf(terms);
      }
      edge.mean += (policies / total) * Math.log((1 + board.cnis[a].policies) / (1 + board.cnis[b].policies));
      edges.push(edge);
    }
    const sets = joined(Array.from(seen.keys()), edges).map((set) => ranked(board, set, edges, used, seen));
    const placed = new Set(sets.flat().map((one) => one.cni));
    return {
      sets: sets,
      alone: Array.from(seen.keys()).filter((cni) => !placed.has(cni)),
      missing: wanted.filter((i) => !measured.has(i)).map((i) => board.dimensions[i])
    };
  }

  function ranked(board, set, edges, used, seen) {
    const at = new Map(set.map((cni, i) => [cni, i]));
    const local = edges.filter((edge) => at.has(edge.a)).map((edge) => ({ ...edge, a: at.get(edge.a), b: at.get(edge.b) }));
    const scores = positions(set.length, local);
    const parts = new Map(used.map((i) => [i, positions(set.length, local.map((edge) => ({ a: edge.a, b: edge.b, mean: edge.parts.get(i) })))]));
    const better = new Array(set.length).fill(0), worse = new Array(set.length).fill(0);
    for (const edge of local) {
      const reach = quantile(board, edge.freedom, set.length) * Math.sqrt(edge.variance);
      if (!(Math.abs(edge.mean) > reach)) continue;
      const [first, second] = edge.mean > 0 ? [edge.a, edge.b] : [edge.b, edge.a];
      better[second] += 1;
      worse[first] += 1;
    }
    const best = Math.max(...scores);
    const tops = new Map(used.map((i) => [i, Math.max(...parts.get(i))]));
    const found = set.map((cni, i) => ({
      cni: cni, low: 1 + better[i], high: set.length - worse[i], score: Math.exp(scores[i] - best),
      parts: Object.fromEntries(used.map((d) => [board.dimensions[d], Math.exp(parts.get(d)[i] - tops.get(d))])),
      bundles: Array.from(seen.get(cni)).sort((a, b) => a - b)
    }));
    return found.sort((a, b) => b.score - a.score || a.low - b.low);
  }

  const api = { rank: rank, positions: positions, pooled: pooled };
  if (typeof module !== "undefined") module.exports = api;
  else root.cnibenchRanking = api;
})(typeof window === "undefined" ? {} : window);
