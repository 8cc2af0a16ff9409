// Formulas.

// Radians per token of a pair: base^(-2i/dim).
function inverseFrequency(pair, dim, base) {
  return base ** (-2 * pair / dim);
}
// Where an arrow that stands at `content` radians at position 0 stands at this position.
function rotated(content, position, pair, dim, base) {
  return content + position * inverseFrequency(pair, dim, base);
}
// What the pair adds to the score of two arrows of length 1: the cosine of the angle between them.
function contribution(query, key, qPosition, kPosition, pair, dim, base) {
  return Math.cos(rotated(key, kPosition, pair, dim, base)
    - rotated(query, qPosition, pair, dim, base));
}
// An angle brought into the half-open range from -pi to pi.
function principal(angle) {
  return angle - 2 * Math.PI * Math.floor((angle + Math.PI) / (2 * Math.PI));
}

// Drawing.

const DIM = 16, QUERY = Math.PI / 9, KEY = Math.PI / 3;  // directions at position 0: 20 and 60 degrees

function draw(s, width) {
  const q = s.query + s.shift, k = s.key + s.shift;
  const a = rotated(QUERY, q, s.pair, DIM, s.base), b = rotated(KEY, k, s.pair, DIM, s.base);
  const between = principal(b - a), c = contribution(QUERY, KEY, q, k, s.pair, DIM, s.base);
  const beside = width >= 520, R = 105, cx = beside ? 150 : width / 2, cy = 140;
  const height = beside ? 275 : 545;
  const at = (angle, r) => [cx + r * Math.cos(angle), cy - r * Math.sin(angle)];
  let svg = `<circle class="axis" cx="${put(cx)}" cy="${cy}" r="${R}"/>`;
  if (s.shift > 0) {  // where both stood before they were moved
    svg += line(cx, cy, ...at(rotated(QUERY, s.query, s.pair, DIM, s.base), R), "faint");
    svg += line(cx, cy, ...at(rotated(KEY, s.key, s.pair, DIM, s.base), R), "faint");
  }
  svg += arrow(cx, cy, ...at(a, R), "one") + arrow(cx, cy, ...at(b, R), "two dashed");
  const arc = [];
  for (let t = 0; t <= 40; t++) arc.push(at(a + between * t / 40, 34));
  svg += curve(arc, "faint");
  // The two labels keep apart when the arrows lie close to each other.
  const spread = Math.abs(between) < 0.3 ? (between < 0 ? -1 : 1) * (0.3 - Math.abs(between)) / 2 : 0;
  const label = (angle, text) => {
    const side = Math.cos(angle), [x, y] = at(angle, R + 14);
    return words(x, y + 4, text, side > 0.3 ? "start" : side < -0.3 ? "end" : "middle");
  };
  svg += label(a - spread, `query ${q}`) + label(b + spread, `key ${k}`);

  // The cosine for every distance, and where these two are on it.
  const reach = 60, left = beside ? 345 : 40, right = width - 12, top = beside ? 40 : 325;
  const X = linear(-reach, reach, left, right), Y = linear(-1, 1, top + 170, top);
  for (const y of [-1, 0, 1]) svg += line(left, Y(y), right, Y(y), "axis") + words(left - 5, Y(y) + 4, show(y), "end");
  for (const x of [-60, -30, 0, 30, 60]) svg += words(X(x), top + 188, show(x));
  const wave = [];
  for (let d = -reach; d <= reach; d += 0.25) {
    wave.push([X(d), Y(contribution(QUERY, KEY, 0, d, s.pair, DIM, s.base))]);
  }
  svg += curve(wave, "faint") + dot(X(k - q), Y(c), 6, "dot");
  svg += words((left + right) / 2, top + 208, "key position minus query position");
  svg += words(left, top - 12, "cosine of the angle", "start");
  return { svg, height, sentence: dialSentence(s) };
}
function dialSentence(s) {
  const q = s.query + s.shift, k = s.key + s.shift, speed = inverseFrequency(s.pair, DIM, s.base);
  const turned = x => show(x * speed, 3);
  const between = rotated(KEY, k, s.pair, DIM, s.base) - rotated(QUERY, q, s.pair, DIM, s.base);
  const degrees = Math.round(principal(between) * 1800 / Math.PI) / 10;
  const c = contribution(QUERY, KEY, q, k, s.pair, DIM, s.base);
  return `Query at ${q} has turned by ${turned(q)} radians, key at ${k} by ${turned(k)}. From query to key `
    + `it is ${show(degrees, 1)} degrees, and the cosine of that is ${show(c, 4)}.`;
}
