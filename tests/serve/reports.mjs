// The pages of --report and --profile in headless Chromium:   node reports.mjs REPORT.html PROFILE.html CHROMIUM
// (tests/pages.sh)
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { openBrowser } from './browser.mjs';

const [report, profile, chromium] = process.argv.slice(2);
const { send, run, until, key, mouse, width, picture, test, close, requests, problems } = await openBrowser(chromium);
const tip = 'getComputedStyle(document.getElementById("tip")).display';
const text = 'document.getElementById("tip").textContent';
const open = async (file) => {
  await send('Page.navigate', { url: pathToFileURL(file).href });
  await until('the page', `document.readyState === "complete" && location.href === ${JSON.stringify(pathToFileURL(file).href)}`);
};
const middle = (expression) => run(`(() => { const e = ${expression}; e.scrollIntoView({ block: "center", inline: "center" });
  const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()`);
// What lies outside of the window and is in nothing that scrolls.
const outside = `[...document.querySelectorAll("body *")].filter((e) => {
  for (let p = e; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== "visible") return false;
  return e.getBoundingClientRect().right > innerWidth + 1;
}).map((e) => e.tagName + "." + e.className)`;

try {
  await open(report);
  await width(1280);
  await test('labels: in their boxes, beside each other, off the boxes', async () => {
    const wrong = await run(`[...document.querySelectorAll("svg")].flatMap((svg) => {
      const wrong = [], rects = [...svg.querySelectorAll(".box rect")].map((r) => r.getBBox());
      for (const box of svg.querySelectorAll(".box")) {
        const r = box.querySelector("rect").getBBox();
        for (const t of box.querySelectorAll("text")) {
          const b = t.getBBox();
          if (b.x < r.x || b.x + b.width > r.x + r.width || b.y < r.y || b.y + b.height > r.y + r.height + 1) wrong.push("leaves its box: " + t.textContent);
        }
      }
      const notes = [...svg.querySelectorAll(".note")].map((t) => [t.getBBox(), t.textContent]);
      const touch = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y + 2 < b.y + b.height && b.y + 2 < a.y + a.height;
      notes.forEach(([a, name], i) => {
        if (notes.some(([b], k) => k > i && touch(a, b))) wrong.push("overprints another: " + name);
        if (rects.some((r) => touch(a, r))) wrong.push("overprints a box: " + name);
        if (a.x + a.width > svg.viewBox.baseVal.width) wrong.push("leaves the drawing: " + name);
      });
      return wrong;
    })`);
    assert.deepEqual(wrong, []);
    assert.ok(await run('document.querySelectorAll("svg .note").length > 6'));
  });
  await test('layers that see all positions are drawn beside those that see the last ones', async () => {
    const kinds = await run('[...document.querySelector(".kinds").querySelectorAll("h3")].map((h) => h.textContent)');
    assert.equal(kinds.length, 2);
    assert.match(kinds[0], /^Layer 3: attention to the last 10 positions \(6 of 7 layers are so\)$/);
    assert.match(kinds[1], /^Layer 5: attention to all positions \(1 of 7/);
    await width(1800);
    assert.ok(await run('(([a, b]) => a.getBoundingClientRect().right <= b.getBoundingClientRect().left)(document.querySelectorAll(".kinds > section"))'));
    await width(1280);
  });
  await test('hover shows a tip and dims other dispatches', async () => {
    const [x, y] = await middle('document.querySelector(".box.c0 rect")');
    await mouse('mouseMoved', x, y);
    assert.equal(await run(tip), 'block');
    assert.ok(await run('document.querySelectorAll(".dim").length > 0'));
    await mouse('mouseMoved', 2, 2);
    assert.equal(await run(tip), 'none');
    assert.equal(await run('document.querySelectorAll(".dim").length'), 0);
  });
  await test('a click keeps it, another one or Escape closes', async () => {
    const at = await middle('document.querySelector(".box.c0 rect")');
    const click = async () => { for (const t of ['mousePressed', 'mouseReleased']) await mouse(t, ...at); };
    await click();
    await mouse('mouseMoved', 2, 2);
    assert.equal(await run(tip), 'block');
    await click();
    await mouse('mouseMoved', 2, 2);
    assert.equal(await run(tip), 'none');
    await click();
    await key('Escape', 27);
    await mouse('mouseMoved', 2, 2);
    assert.equal(await run(tip), 'none');
  });
  await test('an edge can be hit beside its line', async () => {
    const [x, y] = await run(`(() => { const p = document.querySelectorAll(".pair")[0].querySelectorAll("figure")[1].querySelector(".edge path");
      p.scrollIntoView({ block: "center" }); const at = p.getPointAtLength(p.getTotalLength() / 2), m = p.getScreenCTM();
      return [at.x * m.a + m.e + 4, at.y * m.d + m.f]; })()`);
    await mouse('mouseMoved', x, y);
    assert.equal(await run(tip), 'block');
    await mouse('mouseMoved', 2, 2);
  });
  await test('a note on an edge does what its edge does', async () => {
    const notes = await run('document.querySelectorAll("svg text.note").length');
    for (let i = 0; i < notes; i++) {
      const note = `document.querySelectorAll("svg text.note")[${i}]`;
      const edge = `${note}.closest("svg").querySelector('.edge[data-e="' + ${note}.dataset.e + '"]')`;
      const [x, y] = await middle(note);
      await mouse('mouseMoved', x, y);
      assert.equal(await run(tip), 'block', `note ${i}`);
      assert.equal(await run(text), await run(`${edge}.dataset.tip`));
      assert.ok(await run(`${edge}.classList.contains("near") && ${edge}.dataset.tip.includes(${note}.textContent)`), 'the reason is in the tip');
      await mouse('mouseMoved', 2, 2);
      assert.equal(await run(tip), 'none');
      assert.equal(await run('document.querySelectorAll(".near").length'), 0);
    }
    const at = await middle('document.querySelector("svg text.note")');
    for (const t of ['mousePressed', 'mouseReleased']) await mouse(t, ...at);
    await mouse('mouseMoved', 2, 2);
    assert.equal(await run(tip), 'block');
    assert.equal(await run('document.querySelectorAll(".edge.kept").length'), 1);
    await key('Escape', 27);
    assert.equal(await run(tip), 'none');
  });
  await test('the keyboard goes to every tip', async () => {
    await run('(h => { h.tabIndex = -1; h.focus(); })(document.querySelector("h1"))');
    await key('Tab', 9);
    assert.equal(await run('document.activeElement.closest("svg") === document.querySelector("svg")'), true);
    assert.equal(await run(tip), 'block');
    const first = await run(text);
    await key('ArrowDown', 40);
    assert.notEqual(await run(text), first);
    await key('End', 35);
    assert.equal(await run('document.activeElement === [...document.querySelector("svg").querySelectorAll("[data-tip]")].pop()'), true);
    const tall = await run('(() => { const r = document.activeElement.getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; })()');
    assert.ok(tall, 'what has the focus is to be seen');
    await key('Enter', 13, 0, '\r');
    await run('document.activeElement.blur()');
    assert.equal(await run(tip), 'block');
    await key('Escape', 27);
    assert.equal(await run(tip), 'none');
    assert.equal(await run('[...document.querySelectorAll("svg, table")].filter((g) => g.querySelector("[data-tip]") && !g.querySelector("[tabindex=\\"0\\"]")).length'), 0);
  });
  await test('400 pixels wide', async () => {
    await width(400);
    assert.deepEqual(await run(outside), []);
    assert.ok(await run('document.documentElement.scrollWidth <= 400'));
    const [x, y] = await middle('document.querySelector(".box.c0 rect")');
    await mouse('mouseMoved', x, y);
    assert.ok(await run('(({ left, right }) => left >= 0 && right <= 400)(document.getElementById("tip").getBoundingClientRect())'));
    if (process.argv[5]) await picture(process.argv[5] + '-report400.png');
  });

  await width(1280);
  await open(profile);
  await test('the timeline: hover, click, Escape', async () => {
    await run('document.getElementById("one").click()');
    const [x, y] = await run(`(() => { const b = byLane[laneDispatch].filter((b) => b.s >= from && b.e <= to).sort((a, b) => b.e - b.s - a.e + a.s)[0];
      const r = c.getBoundingClientRect(); return [r.left + X((b.s + b.e) / 2), r.top + Y(b.lane) + ROW / 2]; })()`);
    await mouse('mouseMoved', x, y);
    assert.equal(await run(tip), 'block');
    assert.match(await run(text), /GB\/s/);
    for (const t of ['mousePressed', 'mouseReleased']) await mouse(t, x, y);
    await mouse('mouseMoved', 2, 2);
    assert.equal(await run(tip), 'block');
    await key('Escape', 27);
    assert.equal(await run(tip), 'none');
  });
  await test('the timeline: from box to box by keyboard', async () => {
    await run('c.focus()');
    await key('ArrowDown', 40);
    const first = await run(text);
    assert.equal(await run(tip), 'block');
    for (let i = 0; i < 40; i++) await key('ArrowDown', 40);
    assert.notEqual(await run(text), first);
    assert.ok(await run('hot.s >= from && hot.e <= to'));
    await key('Escape', 27);
  });
  await test('the timeline: 400 pixels wide', async () => {
    await width(400);
    assert.deepEqual(await run(outside), []);
    assert.ok(await run('document.documentElement.scrollWidth <= 400'));
    if (process.argv[5]) await picture(process.argv[5] + '-profile400.png');
  });
  await test('nothing comes from elsewhere, and nothing went wrong', async () => {
    assert.deepEqual(requests.filter((u) => !u.startsWith('file:') && !u.startsWith('data:')), []);
    assert.deepEqual(problems, []);
  });
} finally {
  console.log(await close() + ' tests of the pages passed');
}
process.exit();
