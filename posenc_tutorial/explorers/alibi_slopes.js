// Formulas.

// What each head takes off the score per token of distance.
function alibiSlopes(heads) {
  const geometric = n => Array.from({ length: n }, (_, h) => 2 ** (-8 * (h + 1) / n));
  const power = 2 ** Math.floor(Math.log2(heads));
  const extra = geometric(2 * power).filter((_, h) => h % 2 === 0).slice(0, heads - power);
  return [...geometric(power), ...extra];
}
// Part of the attention that the nearest n of `length` keys get when all other things are equal:
// the weights exp(-slope * distance) for distances 0, 1, ... are a geometric series.
function nearestShare(slope, n, length) {
  return Math.expm1(-slope * n) / Math.expm1(-slope * length);
}
// How many of the nearest keys get half of the attention.
function halfReach(slope, length) {
  let n = 1;
  while (nearestShare(slope, n, length) < 0.5) n++;
  return n;
}

// Drawing.

function draw(s, width, limit) {
  limit("head", s.heads);
  const slopes = alibiSlopes(s.heads), slope = slopes[s.head - 1], n = s.length;
  const beside = width >= 520, left = 46, right = width - 12;
  // Slopes, one dot a head.
  const r1 = beside ? 225 : right, top = 30, b1 = beside ? 250 : 180;
  const H = linear(0.5, s.heads + 0.5, left, r1), S = logarithmic(2 ** -9, 1, b1, top);
  let svg = words(4, 14, "slope", "start");
  for (const k of [0, 2, 4, 6, 8]) {
    svg += line(left, S(2 ** -k), r1, S(2 ** -k), "axis");
    svg += words(left - 6, S(2 ** -k) + 4, k ? `1/${2 ** k}` : "1", "end");
  }
  slopes.forEach((m, h) => { svg += dot(H(h + 1), S(m), 3, "dot"); });
  svg += dot(H(s.head), S(slope), 6, "dot-two");
  for (const h of ticks(1, s.heads, 4).filter(Number.isInteger)) svg += words(H(h), b1 + 16, h);
  svg += words((left + r1) / 2, b1 + 34, "head");

  // Attention that the nearest keys get together, one curve a head.
  const l2 = beside ? 300 : left, t2 = beside ? top : 250, b2 = beside ? b1 : 430;
  const X = logarithmic(1, n, l2, right), Y = linear(0, 1, b2, t2);
  svg += words(l2 - 40, t2 - 16, "share of attention on the nearest keys", "start");
  for (const y of [0, 0.5, 1]) {
    svg += line(l2, Y(y), right, Y(y), "axis") + words(l2 - 5, Y(y) + 4, `${100 * y} %`, "end");
  }
  for (let k = 1; k <= n; k *= 4) svg += words(X(k), b2 + 16, show(k));
  const share = m => {
    const points = [];
    for (let t = 0; t <= 60; t++) { const k = n ** (t / 60); points.push([X(k), Y(nearestShare(m, k, n))]); }
    return points;
  };
  for (const m of slopes) svg += curve(share(m), "axis");
  svg += curve(share(slope), "two");
  const half = halfReach(slope, n);
  svg += dot(X(half), Y(nearestShare(slope, half, n)), 6, "dot-two");
  svg += words((l2 + right) / 2, b2 + 34, "number of nearest keys");
  return { svg, height: b2 + 42, sentence: slopeSentence({ ...s, head: Math.min(s.head, s.heads) }) };
}
function slopeSentence(s) {
  const slope = alibiSlopes(s.heads)[s.head - 1], half = halfReach(slope, s.length);
  return `Head ${s.head} of ${s.heads} takes ${show(+slope.toPrecision(4))} off the score for every token of distance. `
    + `If nothing else decides, ${half === 1 ? "the token itself gets" : `the nearest ${show(half)} of ${show(s.length)} keys get`} `
    + `half of its attention${half === 1 ? " or more" : ""}.`;
}
