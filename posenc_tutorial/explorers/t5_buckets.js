// Formulas.

// Which bucket a relative position (key minus query) falls into. Rounded to float32 at each step,
// as in T5: at a bucket's edge the last bit decides.
function t5Bucket(relative, bidirectional, buckets, maxDistance) {
  const f = Math.fround, own = bidirectional ? buckets / 2 : buckets, exact = Math.floor(own / 2);
  const offset = bidirectional && relative > 0 ? own : 0;
  const distance = bidirectional ? Math.abs(relative) : Math.max(0, -relative);
  if (distance < exact) return offset + distance;
  const ratio = f(f(Math.log(f(distance / exact))) / f(Math.log(maxDistance / exact)));
  return offset + Math.min(own - 1, exact + Math.floor(f(ratio * f(own - exact))));
}
// First and last relative position of those around this one that share its bucket, to a limit.
function t5Neighbours(relative, bidirectional, buckets, maxDistance, limit) {
  const bucket = r => t5Bucket(r, bidirectional, buckets, maxDistance);
  let first = relative, last = relative;
  while (first > -limit && bucket(first - 1) === bucket(relative)) first--;
  while (last < limit && bucket(last + 1) === bucket(relative)) last++;
  return [first, last];
}

// Drawing.

function t5Sentence(s) {
  const both = s.direction === "both (encoder)", far = 4096, r = s.relative, n = Math.abs(r);
  const place = r === 0 ? "the token itself"
    : `a key ${n} ${n === 1 ? "token" : "tokens"} ${r < 0 ? "before" : "after"} the query`;
  const [first, last] = t5Neighbours(r, both, s.num_buckets, s.max_distance, far);
  const others = first === last ? "which no other shares"
    : first === -far ? `shared by all from ${show(last)} down`
    : last === far ? `shared by all from ${show(first)} up`
    : `shared by ${show(first)} to ${show(last)}`;
  const bucket = t5Bucket(r, both, s.num_buckets, s.max_distance);
  return `Relative position ${show(r)} (${place}) falls into bucket ${bucket}, ${others}.`;
}
function draw(s, width) {
  const both = s.direction === "both (encoder)", height = width < 480 ? 280 : 320;
  const reach = 160, top = s.num_buckets - 1;
  const X = linear(-reach, reach, 44, width - 12), Y = linear(0, top, height - 46, 16);
  const bucket = r => t5Bucket(r, both, s.num_buckets, s.max_distance);
  let svg = "";
  for (const b of ticks(0, top, 6)) {
    svg += line(44, Y(b), width - 12, Y(b), "axis") + words(38, Y(b) + 4, b, "end");
  }
  for (const r of ticks(-reach, reach, width < 480 ? 4 : 8)) {
    svg += words(X(r), height - 28, show(r));
  }
  svg += words((44 + width - 12) / 2, height - 10, "relative position: key minus query, tokens");
  svg += words(4, 8, "bucket", "start");
  const steps = [];
  for (let r = -reach; r <= reach; r++) {
    steps.push([X(r - 0.5), Y(bucket(r))], [X(r + 0.5), Y(bucket(r))]);
  }
  svg += line(X(0), 16, X(0), height - 46, "faint") + curve(steps, "one");
  for (const edge of both ? [-s.max_distance, s.max_distance] : [-s.max_distance]) {
    if (Math.abs(edge) <= reach) svg += line(X(edge), 16, X(edge), height - 46, "faint");
  }
  svg += dot(X(s.relative), Y(bucket(s.relative)), 6, "dot-two");
  const left = s.relative < 0 ? s.relative > -100 : s.relative > 100;
  svg += words(X(s.relative) + (left ? -9 : 9), Y(bucket(s.relative)) + (s.relative < 0 ? 18 : -10),
    `bucket ${bucket(s.relative)}`, left ? "end" : "start");
  return { svg, height, sentence: t5Sentence(s) };
}
