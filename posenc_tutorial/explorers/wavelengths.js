// Formulas.

// Radians per token of every pair after a method of extending the context by `factor`.
function extendedFrequencies(method, dim, base, factor, length) {
  const plain = b => Array.from({ length: dim / 2 }, (_, i) => b ** (-2 * i / dim));
  if (method === "PI") return plain(base).map(w => w / factor);
  if (method === "NTK-aware") return plain(base * factor ** (dim / (dim - 2)));
  if (method === "YaRN") {
    const [low, high] = yarnEnds(dim, base, length);
    return plain(base).map((w, i) => {
      const slowed = Math.min(1, Math.max(0, (i - low) / Math.max(high - low, 0.001)));
      return slowed * w / factor + (1 - slowed) * w;
    });
  }
  return plain(base);
}
// The pairs between which YaRN blends: those that make 32 turns and 1 turn within the length.
function yarnEnds(dim, base, length) {
  const index = turns => dim * Math.log(length / (2 * Math.PI * turns)) / (2 * Math.log(base));
  const kept = end => Math.min(Math.max(end, 0), dim - 1);
  return [kept(Math.floor(index(32))), kept(Math.ceil(index(1)))];
}
const wavelength = w => 2 * Math.PI / w;

// Drawing.

function draw(s, width) {
  const L = s.length, height = width < 480 ? 300 : 340, left = 46, right = width - 12;
  const own = m => extendedFrequencies(m, s.dim, s.base, s.factor, L).map(wavelength);
  const before = own("none"), after = own(s.method), n = s.dim / 2;
  const top = Math.ceil(Math.log10(1.5 * Math.max(...after, ...before, L * s.factor)));
  const X = linear(0, n - 1, left, right), Y = logarithmic(1, 10 ** top, height - 46, 24);
  let svg = words(4, 12, "wavelength, tokens", "start");
  for (let k = 0; k <= top; k++) {
    svg += line(left, Y(10 ** k), right, Y(10 ** k), "axis") + words(left - 6, Y(10 ** k) + 4, power(k), "end");
  }
  for (const i of ticks(0, n - 1, 5).filter(Number.isInteger)) svg += words(X(i), height - 28, i);
  svg += words((left + right) / 2, height - 10, "pair");
  const points = w => w.map((x, i) => [X(i), Y(x)]);
  svg += curve(points(before), "faint") + curve(points(after), "one");
  const limit = (x, label, below) => line(left, Y(x), right, Y(x), "two dashed")
    + words(left + 6, Y(x) + (below ? 14 : -5), label, "start");
  svg += limit(L, `original length ${show(L)}`, true);
  if (s.factor > 1) svg += limit(L * s.factor, `extended to ${show(L * s.factor)}`);
  return { svg, height, sentence: wavelengthSentence(s) };
}
function wavelengthSentence(s) {
  const own = m => extendedFrequencies(m, s.dim, s.base, s.factor, s.length);
  const after = own(s.method), before = own("none"), n = s.dim / 2;
  const turning = after.filter(w => wavelength(w) <= s.length).length;
  const kept = after.filter((w, i) => Math.abs(w / before[i] - 1) < 1e-9).length;
  const method = s.method === "none" ? "Without a method" : `With ${s.method}`;
  return `${method}, ${kept} of ${n} pairs keep their speed and ${turning} complete a turn within ${show(s.length)} tokens; `
    + `the slowest needs ${show(wavelength(after[n - 1]), 0)}.`;
}
