"use strict";
/* Tooltips: an element with data-tip shows it while it has the pointer or the keyboard focus.  Tab moves to a drawing or table,
 * arrow keys move between its elements.  A click or Enter keeps the tip open until the next one or Escape.  An element with a
 * colour (data-c) dims the boxes of other colours. */
const tip = document.getElementById("tip");
let kept = null;
const dim = (g, on) => {
  if (!(g.dataset.c >= 0)) return;
  g.closest(".pair").querySelectorAll(".box").forEach(b => b.classList.toggle("dim", on && b.dataset.c != g.dataset.c));
};
const show = (g, x, y) => {
  tip.textContent = g.dataset.tip;
  tip.style.display = "block";
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(8, Math.min(x, innerWidth - w - 8)) + "px";
  tip.style.top = Math.max(8, y + h > innerHeight ? y - h - 30 : y) + "px";
  dim(g, true);
};
const below = g => {
  const r = g.getBoundingClientRect();
  show(g, r.left, Math.min(r.bottom, innerHeight) + 4);
};
const hide = g => {
  if (g) dim(g, false);
  tip.style.display = "none";
};
const keep = g => {
  if (kept) {
    kept.classList.remove("kept");
    hide(kept);
  }
  kept = g === kept ? null : g;
  if (kept) {
    kept.classList.add("kept");
    below(kept);
  }
};
document.querySelectorAll("svg .edge path").forEach(p => { /* a wide invisible path, because thin lines are hard to hit */
  const wide = p.cloneNode();
  wide.setAttribute("class", "hit");
  p.after(wide);
});
document.querySelectorAll("svg text.note").forEach(note => { /* a note behaves like its edge */
  const edge = note.closest("svg").querySelector(`.edge[data-e="${note.dataset.e}"]`);
  note.addEventListener("mousemove", e => {
    edge.classList.add("near");
    if (!kept) show(edge, e.clientX + 14, e.clientY + 18);
  });
  note.addEventListener("mouseleave", () => {
    edge.classList.remove("near");
    if (!kept) hide(edge);
  });
  note.addEventListener("click", e => { e.stopPropagation(); keep(edge); });
});
document.querySelectorAll("svg, table").forEach(group => {
  const all = [...group.querySelectorAll("[data-tip]")];
  all.forEach((g, i) => {
    g.setAttribute("tabindex", i ? "-1" : "0");
    g.setAttribute("role", "button");
    g.setAttribute("aria-description", g.dataset.tip);
    g.addEventListener("mousemove", e => { if (!kept) show(g, e.clientX + 14, e.clientY + 18); });
    g.addEventListener("mouseleave", () => { if (!kept) hide(g); });
    g.addEventListener("click", e => { e.stopPropagation(); keep(g); });
    g.addEventListener("focus", () => {
      all.forEach(o => o.setAttribute("tabindex", o === g ? "0" : "-1"));
      if (!kept && g.matches(":focus-visible")) below(g);
    });
    g.addEventListener("blur", () => { if (!kept) hide(g); });
    g.addEventListener("keydown", e => {
      const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[e.key];
      const to = e.key === "Home" ? 0 : e.key === "End" ? all.length - 1 : step ? i + step : -1;
      if (e.key === "Enter" || e.key === " ") keep(g);
      else if (all[to]) { if (kept) keep(kept); all[to].focus(); }
      else return;
      e.preventDefault();
    });
  });
});
document.addEventListener("click", () => { if (kept) keep(kept); });
document.addEventListener("keydown", e => {
  if (e.key !== "Escape") return;
  if (kept) keep(kept);
  hide(document.activeElement.dataset.tip ? document.activeElement : null);
});
document.addEventListener("scroll", () => { if (kept) below(kept); }, {capture: true, passive: true});
