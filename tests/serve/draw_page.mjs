// The tab that draws in headless Chromium:   node draw_page.mjs URL CHROMIUM [PICTURE.png]   (tests/golden/draw_serve.sh whole)
// PICTURE.png gets what the page looks like.
import assert from 'node:assert/strict';
import { openBrowser } from './browser.mjs';

const [url, chromium, file] = process.argv.slice(2);
const { send, run, until, key, test, close, width, picture, problems } = await openBrowser(chromium);
const enter = () => key('Enter', 13, 0, '\r');
const idle = '!document.getElementById("draw-send").hidden';
const figures = 'document.querySelectorAll("#drawings figure")';
const state = () => run('document.getElementById("state").textContent');

try {
  await send('Page.navigate', { url: url + '/' });
  await until('the tab that draws', 'document.getElementById("draw-text")?.placeholder.includes("24 x 16")');
  await test('a model that draws begins in its tab', async () => {
    assert.equal(await run('document.activeElement.id'), 'draw-text');
    assert.equal(await run('document.getElementById("talk").hidden'), true);
    assert.equal(await run('document.getElementById("draw-steps").placeholder'), '1');
  });
  await test('typing and Enter draw, with progress', async () => {
    await run(`window.seen = []; new MutationObserver(() => seen.push(document.getElementById("state").textContent)).observe(document.getElementById("state"), { childList: true });
      document.getElementById("draw-steps").value = "3"; document.getElementById("draw-seed").value = "7"; document.getElementById("draw-n").value = "2"`);
    await send('Input.insertText', { text: 'a red <b>house</b>' });
    await enter();
    await until('two pictures', `${figures}.length === 2 && ${idle}`);
    assert.match(await state(), /^2 pictures in /);
    const seen = await run('seen.join("|")');
    assert.match(seen, /picture 1 of 2, step 1 of 3/);
    assert.match(seen, /decoding/);
    assert.equal(await run(`${figures}[0].querySelector("b").textContent`), 'a red <b>house</b>');
    assert.match(await run(`${figures}[1].querySelector("figcaption div").textContent`), /^Steps: 3, Sampler: euler, CFG scale: .*Seed: 7, Size: 24x16$/);
    await until('pixels', `${figures}[0].querySelector("img").naturalWidth === 24`);
    assert.match(await run(`${figures}[1].querySelector("a").download`), /picture-7\.png/);
  });
  await test('settings of a picture come back', async () => {
    await run('document.getElementById("draw-steps").value = ""; document.getElementById("draw-text").value = ""');
    await run(`[...${figures}[0].querySelectorAll("button")].find((b) => b.textContent === "Use settings").click()`);
    assert.equal(await run('document.getElementById("draw-seed").value + document.getElementById("draw-steps").value'), '83');
    assert.equal(await run('document.activeElement.id'), 'draw-text');
  });
  await test('Escape stops', async () => {
    await run('document.getElementById("draw-steps").value = "1000"');
    await enter();
    await until('steps', 'document.getElementById("state").textContent.includes("of 1000")');
    await key('Escape', 27);
    await until('the end', idle, 5000);
    assert.equal(await state(), 'stopped');
    await until('a free engine', 'fetch("metrics").then((r) => r.text()).then((t) => t.includes("doppler_jobs_running 0"))', 5000);
  });
  await test('what is wrong is said', async () => {
    await run('document.getElementById("draw-steps").value = "5000"');
    await enter();
    await until('the reason', 'document.getElementById("state").textContent.includes("steps is a whole number")');
    await run('document.getElementById("draw-steps").value = "2"; document.getElementById("draw-text").dispatchEvent(new Event("input", { bubbles: true }))');
  });
  await test('a reload keeps what was typed; pictures go away one by one', async () => {
    await run(`${figures}[0].querySelector("button:last-child").click()`);
    assert.equal(await run(`${figures}.length`), 1);
    await run('window.isOld = true');
    await send('Page.reload');
    await until('the page again', '!window.isOld && document.getElementById("draw-text")?.placeholder.includes("24 x 16")');
    assert.equal(await run('document.getElementById("draw-text").value'), 'a red <b>house</b>');
    assert.equal(await run('document.getElementById("draw-steps").value'), '2');
    assert.match(await run('document.getElementById("no-drawings").textContent'), /Enter draws/);
  });
  await test('Alt+T and Alt+D change the tab', async () => {
    await key('t', 84, 1);
    assert.equal(await run('document.getElementById("draw").hidden'), true);
    await key('d', 68, 1);
    assert.equal(await run('document.activeElement.id'), 'draw-text');
  });
  await test('400 pixels wide, light and dark', async () => {
    await enter();
    await until('a picture', `${figures}.length > 0 && ${idle}`);
    await width(400);
    const wide = await run('[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > 401).map((e) => e.tagName + "#" + e.id)');
    assert.deepEqual(wide, []);
    const back = async (scheme) => {
      await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
      return run('getComputedStyle(document.body).backgroundColor + getComputedStyle(document.getElementById("draw-send")).backgroundColor');
    };
    assert.notEqual(await back('light'), await back('dark'));
    if (file) await picture(file.replace('.png', '-narrow.png'));
    await width(1000);
    await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: 'light' }] });
    if (file) await picture(file);
  });
  assert.deepEqual(problems, []);
} finally {
  console.log((await close()) + ' tests');
}
