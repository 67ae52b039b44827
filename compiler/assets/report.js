"use strict";
/* What has a data-tip shows it under the pointer; what has a colour (data-c) dims the boxes of other colours. */
const tip = document.getElementById("tip");
document.querySelectorAll("[data-tip]").forEach(g => {
  g.addEventListener("mousemove", e => {
    tip.textContent = g.dataset.tip;
    tip.style.display = "block";
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.min(e.clientX + 14, innerWidth - w - 8) + "px";
    tip.style.top = (e.clientY + 18 + h > innerHeight ? e.clientY - h - 12 : e.clientY + 18) + "px";
  });
  g.addEventListener("mouseleave", () => { tip.style.display = "none"; });
  if (!(g.dataset.c >= 0)) return;
  const boxes = g.closest(".pair").querySelectorAll(".box");
  g.addEventListener("mouseenter", () => boxes.forEach(b => b.classList.toggle("dim", b.dataset.c != g.dataset.c)));
  g.addEventListener("mouseleave", () => boxes.forEach(b => b.classList.remove("dim")));
});
