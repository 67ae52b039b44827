"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id), c = $("c"), g = c.getContext("2d"), tip = $("tip");
const css = n => getComputedStyle(document.documentElement).getPropertyValue(n).trim();
$("title").textContent = D.model + (D.weights ? ", " + D.weights : "");
$("where").textContent = D.device + " (" + D.driver + "), " + D.date + ", " + D.program +
  ", plan " + D.plan;
$("how").textContent = (D.calibrated ? "Device and host times are on one clock (calibrated timestamps)."
  : "The device's clock is placed beside the host's by guess; lengths are exact.") +
  " A timestamp after each dispatch keeps dispatches from overlapping as they otherwise may.";
const hues = {}; let nHues = 0;
const color = n => {
  if (!(n in hues)) hues[n] = nHues++;
  return "hsl(" + (hues[n] * 137.5 + 205) % 360 + " 55% 58%)";
};
/* All boxes: {lane, s, e, name, key, tip} with times in microseconds. */
const lanes = [], boxes = [];
const depth = D.host.reduce((m, h) => Math.max(m, h[3]), 0);
for (let i = 0; i <= depth; i++) lanes.push(i ? "" : "host");
const laneSteps = lanes.push("device: replays") - 1, laneDispatch = lanes.push("device: dispatches") - 1;
const us = x => x >= 1e6 ? (x / 1e6).toFixed(3) + " s"
  : x >= 1e3 ? (x / 1e3).toFixed(3) + " ms" : x.toFixed(2) + " us";
for (const [name, s, e, d, number] of D.host)
  boxes.push({lane: d, s, e, name: d || number < 0 ? name : name + " " + number, key: name, tip: ""});
D.steps.forEach(([sched, times], i) => {
  const sc = D.schedules[sched], n = times.length - 1;
  boxes.push({lane: laneSteps, s: times[0], e: times[n], name: sc.name + " #" + i, key: sc.name,
    tip: n + " dispatches; replay " + i, mark: true});
  for (let j = 0; j < n; j++) {
    const d = sc.dispatches[j], t = times[j + 1] - times[j];
    boxes.push({lane: laneDispatch, s: times[j], e: times[j + 1], name: d[0], key: d[1],
      tip: d[2] + "\n" + d[3] + "\ngrid " + d[4] +
        (d[6] ? "; after a barrier" : "; no barrier") + "\n" +
        (d[5] / 1e6).toFixed(3) + " MB, " + (t > 0 ? (d[5] / t / 1e3).toFixed(2) : "-") + " GB/s" +
        (D.floor && t > 0 ? ", " + (d[5] / t / 10 / D.floor).toFixed(1) +
          "% of the read bandwidth" : "")});
  }
});
const byLane = lanes.map((_, i) => boxes.filter(b => b.lane === i).sort((a, b) => a.s - b.s));
const marks = boxes.filter(b => b.mark);
const lo = Math.min(...byLane.map(l => l.length ? l[0].s : Infinity));
const hi = boxes.reduce((m, b) => Math.max(m, b.e), 1);
let from = lo, to = hi, hot = null, W = 0;
const TOP = 24, ROW = 30, GAP = 6, LEFT = 8;
const X = t => LEFT + (t - from) / (to - from) * (W - 2 * LEFT);
const T = x => from + (x - LEFT) / (W - 2 * LEFT) * (to - from);
const Y = lane => TOP + lane * (ROW + GAP) + Math.max(lane - depth, 0) * 16 + 14;
function draw() {
  const r = window.devicePixelRatio || 1; W = c.clientWidth;
  const H = Y(lanes.length - 1) + ROW + 12;
  c.style.height = H + "px"; c.width = W * r; c.height = H * r; g.setTransform(r, 0, 0, r, 0, 0);
  const fg = css("--fg"), dim = css("--dim"), line = css("--line");
  g.clearRect(0, 0, W, H); g.font = "12px system-ui,sans-serif"; g.textBaseline = "middle";
  /* time axis */
  const least = Math.min(6, Math.max(1, W / 200)); /* labels, or up to 2.5 times as many */
  let tick = Math.pow(10, Math.floor(Math.log10((to - from) / least)));
  for (const k of [5, 2]) if ((to - from) / (tick * k) >= least) { tick *= k; break; }
  g.fillStyle = dim; g.strokeStyle = line; g.beginPath();
  for (let t = Math.ceil(from / tick) * tick; t <= to; t += tick) {
    const x = Math.round(X(t)) + .5; g.moveTo(x, 18); g.lineTo(x, H);
    g.fillText(us(t), x + 3, 9);
  }
  g.stroke();
  /* step marks */
  if (X(marks.length ? marks[0].e : 0) - X(marks.length ? marks[0].s : 0) > 6) {
    g.save(); g.setLineDash([3, 3]); g.strokeStyle = dim; g.beginPath();
    for (const m of marks) {
      const x = Math.round(X(m.s)) + .5;
      if (m.s >= from && m.s <= to) { g.moveTo(x, 18); g.lineTo(x, H); }
    }
    g.stroke(); g.restore();
  }
  lanes.forEach((name, lane) => {
    const y = Y(lane); g.fillStyle = dim; if (name) g.fillText(name, LEFT, y - 9);
    let lastX = -1;
    for (const b of byLane[lane]) {
      if (b.e < from || b.s > to) continue;
      const x0 = Math.max(X(b.s), -5), x1 = Math.min(X(b.e), W + 5), w = x1 - x0;
      if (x1 - lastX < .4 && w < .4) continue; /* less than a pixel and drawn already */
      lastX = x1;
      g.globalAlpha = hot && hot.key !== b.key ? .35 : 1;
      g.fillStyle = color(b.key); g.fillRect(x0, y, Math.max(w - (w > 3 ? .7 : 0), .5), ROW);
      if (w > 26) {
        g.save(); g.beginPath(); g.rect(x0, y, w - 2, ROW); g.clip();
        g.fillStyle = "#10141a"; g.fillText(b.name, Math.max(x0, LEFT) + 4, y + ROW / 2 + .5); g.restore();
      }
      if (hot === b) { g.strokeStyle = fg; g.strokeRect(x0 + .5, y + .5, Math.max(w - 1, 1), ROW - 1); }
    }
    g.globalAlpha = 1;
  });
}
function under(ev) {
  const r = c.getBoundingClientRect(), x = ev.clientX - r.left, y = ev.clientY - r.top;
  const lane = lanes.findIndex((_, i) => y >= Y(i) && y <= Y(i) + ROW); if (lane < 0) return null;
  const slack = (to - from) / W * 1.5, t = T(x); let best = null;
  for (const b of byLane[lane]) { if (b.s > t + slack) break;
    if (b.e >= t - slack && (!best || Math.abs(b.s + b.e - 2 * t) < Math.abs(best.s + best.e - 2 * t)))
      best = b; }
  return best;
}
function view(a, b) {
  const least = .05, w = Math.min(Math.max(b - a, least), (hi - lo) * 1.1 + least);
  a = Math.min(Math.max(a, lo - w / 2), hi - w / 2); from = a; to = a + w; draw();
}
const zoom = (t, f) => view(t - (t - from) * f, t + (to - t) * f);
c.addEventListener("wheel", ev => { ev.preventDefault();
  if (ev.shiftKey) { const d = (to - from) * Math.sign(ev.deltaY || ev.deltaX) * .15; view(from + d, to + d); }
  else zoom(T(ev.clientX - c.getBoundingClientRect().left), Math.pow(1.0015, ev.deltaY)); }, {passive: false});
let drag = null, kept = false;
/* Highlights box b and shows its tooltip at a position in the window; hides it if b is null. */
function point(b, x, y) {
  if (b !== hot) { hot = b; draw(); }
  tip.style.display = b ? "block" : "none";
  if (!b) return;
  tip.textContent = b.name + "   " + us(b.e - b.s) + "\nfrom " + us(b.s) + (b.tip ? "\n" + b.tip : "");
  tip.style.left = Math.max(8, Math.min(x, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(8, Math.min(y, innerHeight - tip.offsetHeight - 8)) + "px";
}
const forget = () => { kept = false; point(null); };
/* Moves the selection along a lane and scrolls the view to it. */
function walk(by) {
  const lane = byLane[hot && hot.lane !== undefined ? hot.lane : laneDispatch];
  if (!lane.length) return;
  const first = lane.findIndex(b => b.e >= from), at = hot && hot.lane !== undefined ? lane.indexOf(hot) + by : first;
  const b = lane[Math.min(Math.max(at, 0), lane.length - 1)], middle = (b.s + b.e) / 2, w = to - from;
  if (b.s < from || b.e > to) view(middle - w / 2, middle + w / 2);
  const r = c.getBoundingClientRect();
  kept = true;
  point(b, r.left + Math.max(X(b.s), 0), r.top + Y(b.lane) + ROW + 4);
}
c.addEventListener("pointerdown", ev => { drag = {x: ev.clientX, from, to};
  c.setPointerCapture(ev.pointerId); });
c.addEventListener("pointerup", ev => {
  const still = drag && Math.abs(ev.clientX - drag.x) < 4, b = under(ev);
  drag = null;
  if (!still) return;
  const same = kept && b === hot;
  kept = !!b && !same;
  point(same ? null : b, ev.clientX + 14, ev.clientY + 14);
});
c.addEventListener("pointermove", ev => {
  if (drag) {
    const d = (drag.x - ev.clientX) / (W - 2 * LEFT) * (drag.to - drag.from);
    view(drag.from + d, drag.to + d);
    return;
  }
  if (!kept) point(under(ev), ev.clientX + 14, ev.clientY + 14);
});
c.addEventListener("pointerleave", () => { if (!kept) point(null); });
const show = (b, margin) => view(b.s - (b.e - b.s) * margin, b.e + (b.e - b.s) * margin);
c.addEventListener("dblclick", ev => { const b = under(ev); if (b) show(b, .05); });
addEventListener("keydown", ev => { const w = to - from, m = (from + to) / 2;
  if (ev.key === "Escape") forget();
  else if (ev.key === "ArrowDown" || ev.key === "ArrowUp") {
    if (document.activeElement !== c) return; /* without focus, the keys scroll the page */
    ev.preventDefault();
    walk(ev.key === "ArrowDown" ? 1 : -1);
  } else if (ev.key === "ArrowLeft") view(from - w * .2, to - w * .2);
  else if (ev.key === "ArrowRight") view(from + w * .2, to + w * .2);
  else if (ev.key === "+" || ev.key === "=") zoom(m, .7); else if (ev.key === "-") zoom(m, 1.4); });
addEventListener("resize", draw);
$("all").onclick = () => view(lo, hi);
$("one").onclick = () => { if (marks.length) show(marks[Math.floor(marks.length / 2)], .03); };
for (const t of D.tables) {
  const h = document.createElement("h2"); h.textContent = t.title;
  const tab = document.createElement("table"), head = tab.createTHead().insertRow(),
    body = tab.createTBody();
  $("tables").append(h, tab);
  const cell = (row, text, th) => {
    const d = document.createElement(th ? "th" : "td");
    d.textContent = text;
    row.append(d);
    return d;
  };
  for (const x of ["kernel", "variant", "count", "total", "mean", "share", "MB each",
    "GB/s"].concat(D.floor ? ["of floor"] : []))
    cell(head, x, true);
  for (const [name, variant, count, total, bytes] of t.rows) {
    const row = body.insertRow(), first = cell(row, name), dot = document.createElement("i");
    dot.style.background = color(name); first.prepend(dot);
    const gbps = total > 0 ? bytes / total / 1e3 : 0;
    [variant, count, us(total), us(total / (count || 1)), (100 * total / t.total).toFixed(1) + "%",
      (bytes / (count || 1) / 1e6).toFixed(3), gbps.toFixed(2)]
      .concat(D.floor ? [(100 * gbps / D.floor).toFixed(1) + "%"] : [])
      .forEach(x => cell(row, x));
    row.onmouseenter = () => { hot = {key: name}; draw(); }; row.onmouseleave = () => { hot = null; draw(); };
  }
}
if (marks.length > 12) view(marks[marks.length - 4].s, marks[marks.length - 1].e); else draw();
