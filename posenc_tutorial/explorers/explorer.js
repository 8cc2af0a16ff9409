// What all explorers share: reading the controls, and small helpers that write SVG.

// Find this explorer's box, draw it now, at every change of a control and of the width.
function startExplorer(name, draw) {
  const own = document.currentScript && document.currentScript.closest(".posenc-explorer");
  const free = `.posenc-explorer[data-explorer="${name}"]:not([data-started])`;
  for (const root of own ? [own] : document.querySelectorAll(free)) {
    root.dataset.started = "yes";
    const form = root.querySelector("form"), svg = root.querySelector("svg");
    const say = root.querySelector(".say");
    const redraw = () => {
      const set = {}, atMost = (n, high) => {
        const e = form.elements[n];
        e.max = high;
        if (set[n] > high) e.value = set[n] = high;
      };
      for (const e of form.elements) set[e.name] = setting(e);
      const width = Math.max(260, svg.clientWidth || 640);
      const drawn = draw(set, width, atMost);
      svg.setAttribute("viewBox", `0 0 ${width} ${drawn.height}`);
      svg.innerHTML = drawn.svg;
      if (say.textContent !== drawn.sentence) say.textContent = drawn.sentence;
      for (const e of form.elements) {
        if (e.type !== "range") continue;
        const shown = show(setting(e));
        e.nextElementSibling.textContent = shown;
        if (e.dataset.values) e.setAttribute("aria-valuetext", shown);
      }
    };
    form.addEventListener("input", redraw);
    // JupyterLab would move to another cell with the arrow keys that the controls need.
    form.addEventListener("keydown", e => {
      if (!(e.ctrlKey || e.metaKey || e.altKey)) e.stopPropagation();
    });
    new ResizeObserver(redraw).observe(svg);
    redraw();
  }
}
function setting(e) {
  if (e.type !== "range") return e.value;
  return e.dataset.values ? JSON.parse(e.dataset.values)[+e.value] : +e.value;
}

// Numbers: commas between thousands, a real minus sign.
function show(x, digits) {
  const form = digits === undefined ? { maximumFractionDigits: 10 }
    : { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return x.toLocaleString("en-US", form).replace("-", "\u2212");
}
const power = k => k < 4 ? show(10 ** k) : "10" + [...String(k)].map(c => "⁰¹²³⁴⁵⁶⁷⁸⁹"[+c]).join("");

// SVG.
const put = x => x.toFixed(1);
const line = (x1, y1, x2, y2, kind) =>
  `<line class="${kind}" x1="${put(x1)}" y1="${put(y1)}" x2="${put(x2)}" y2="${put(y2)}"/>`;
const curve = (points, kind) =>
  `<polyline class="${kind}" points="${points.map(p => put(p[0]) + "," + put(p[1])).join(" ")}"/>`;
const dot = (x, y, r, kind) => `<circle class="${kind}" cx="${put(x)}" cy="${put(y)}" r="${r}"/>`;
const words = (x, y, s, anchor = "middle") =>
  `<text x="${put(x)}" y="${put(y)}" text-anchor="${anchor}">${s}</text>`;
const arrow = (x, y, x2, y2, kind) => {
  const a = Math.atan2(y2 - y, x2 - x);
  const wing = t => [x2 - 11 * Math.cos(a + t), y2 - 11 * Math.sin(a + t)];
  return line(x, y, x2, y2, kind) + curve([wing(0.4), [x2, y2], wing(-0.4)], kind.split(" ")[0]);
};
// From numbers to pixels.
const linear = (from, to, left, right) => x => left + (x - from) * (right - left) / (to - from);
const logarithmic = (from, to, left, right) => {
  const scale = linear(Math.log(from), Math.log(to), left, right);
  return x => scale(Math.log(x));
};
// About n round numbers between two.
function ticks(from, to, n) {
  const raw = (to - from) / n, size = 10 ** Math.floor(Math.log10(raw));
  const step = size * [1, 2, 5, 10].find(m => m * size >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + 1e-9 * step; k++) found.push(k * step);
  return found;
}
