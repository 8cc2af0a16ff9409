// Formulas.

// Angle of a pair's hand at a position: position * base^(-2i/dim), radians.
function handAngle(position, pair, dim, base) {
  return position * base ** (-2 * pair / dim);
}
// Row of the table: sine and cosine of every pair, side by side.
function sinusoidRow(position, dim, base) {
  const row = [];
  for (let i = 0; i < dim / 2; i++) {
    row.push(Math.sin(handAngle(position, i, dim, base)), Math.cos(handAngle(position, i, dim, base)));
  }
  return row;
}
// Dot product of two rows.
function rowProduct(p, q, dim, base) {
  const left = sinusoidRow(p, dim, base), right = sinusoidRow(q, dim, base);
  return left.reduce((sum, x, i) => sum + x * right[i], 0);
}

// Drawing.

function draw(s, width) {
  const pairs = s.dim / 2, N = 100, left = 52, right = width - 12;
  const rowHeight = pairs <= 4 ? 36 : pairs <= 8 ? 26 : 18, top = 30, bottom = top + pairs * rowHeight;
  const X = linear(0, N, left, right);
  let svg = "";
  for (let i = 0; i < pairs; i++) {
    const middle = top + (i + 0.5) * rowHeight, up = 0.42 * rowHeight;
    const wave = [], y = p => middle - up * Math.sin(handAngle(p, i, s.dim, s.base));
    for (let p = 0; p <= N; p += 0.5) wave.push([X(p), y(p)]);
    svg += line(left, middle, right, middle, "axis") + curve(wave, "faint solid");
    svg += words(left - 6, middle + 4, `pair ${i}`, "end");
    svg += dot(X(s.first), y(s.first), 4, "dot-one") + dot(X(s.second), y(s.second), 4, "dot-two");
  }
  svg += line(X(s.first), top, X(s.first), bottom, "one") + line(X(s.second), top, X(s.second), bottom, "two dashed");
  // Labels that would meet go to different heights.
  const close = Math.abs(X(s.first) - X(s.second)) < 75;
  const side = p => p < 8 ? "start" : p > N - 8 ? "end" : "middle";
  svg += words(X(s.first), close ? 8 : 22, `first ${s.first}`, side(s.first));
  svg += words(X(s.second), 22, `second ${s.second}`, side(s.second));
  for (const p of ticks(0, N, 5)) svg += words(X(p), bottom + 16, p);
  svg += words((left + right) / 2, bottom + 34, "position");

  // The dot product for every distance, and where these two are on it.
  const t2 = bottom + 70, b2 = t2 + 110, K = linear(-N, N, left, right), Y = linear(-pairs, pairs, b2, t2);
  for (const y of [-pairs, 0, pairs]) svg += line(left, Y(y), right, Y(y), "axis") + words(left - 6, Y(y) + 4, show(y), "end");
  const all = [];
  for (let k = -N; k <= N; k++) all.push([K(k), Y(rowProduct(0, k, s.dim, s.base))]);
  svg += curve(all, "faint solid") + dot(K(s.second - s.first), Y(rowProduct(s.first, s.second, s.dim, s.base)), 6, "dot");
  for (const k of [-100, -50, 0, 50, 100]) svg += words(K(k), b2 + 16, show(k));
  svg += words((left + right) / 2, b2 + 34, "second position minus first");
  svg += words(left, t2 - 10, "dot product", "start");
  return { svg, height: b2 + 42, sentence: boardSentence(s) };
}
function boardSentence(s) {
  const apart = Math.abs(s.second - s.first);
  return `The dot product of the rows of positions ${s.first} and ${s.second} is `
    + `${show(rowProduct(s.first, s.second, s.dim, s.base), 4)} of at most ${s.dim / 2}; `
    + `they are ${apart} ${apart === 1 ? "token" : "tokens"} apart.`;
}
