// The chat page in headless Chromium:   node page.mjs URL CHROMIUM   (tests/golden/serve.sh whole)
import assert from 'node:assert/strict';
import { openBrowser } from './browser.mjs';

const [url, chromium] = process.argv.slice(2);
const { send, run, until, key, test, close, requests, problems } = await openBrowser(chromium);
const enter = () => key('Enter', 13, 0, '\r');
const answers = 'document.querySelectorAll(".assistant .message")';
const idle = '!document.getElementById("send").hidden';

try {
  await send('Page.navigate', { url: url + '/' });
  await until('the model\'s name', 'document.getElementById("model")?.textContent.startsWith("gemma3")');

  await test('typing and sending by keyboard, streaming', async () => {
    assert.equal(await run('document.activeElement.id'), 'text');
    await run('document.getElementById("tokens").value = "40"');
    await send('Input.insertText', { text: 'Speak to me' });
    await enter();
    await until('some text', `${answers}[0]?.textContent.length > 0`);
    assert.equal(await run('document.querySelector(".user .message").textContent'), 'Speak to me');
    assert.ok(!(await run(idle)), 'it shows text before the answer is over');
    await until('the end', idle);
    assert.match(await run('document.getElementById("state").textContent'), /tokens\/s/);
  });
  await test('Shift+Enter is a line break', async () => {
    await send('Input.insertText', { text: 'one' });
    await key('Enter', 13, 8, '\r');
    await send('Input.insertText', { text: 'two' });
    assert.equal(await run('document.getElementById("text").value'), 'one\ntwo');
    await run('document.getElementById("text").value = ""');
  });
  await test('stopping by Escape keeps what was written', async () => {
    await run('document.getElementById("tokens").value = ""');
    await send('Input.insertText', { text: 'Go on and on' });
    await enter();
    await until('some text', `${answers}[1]?.textContent.length > 0`);
    await key('Escape', 27);
    await until('the end', idle, 5000);
    assert.match(await run('document.querySelectorAll(".assistant .note")[1].textContent'), /stopped/);
    assert.ok(await run(`${answers}[1].textContent.length > 0`));
    await until('a free sequence', `fetch("metrics").then((r) => r.text()).then((t) => t.includes("doppler_jobs_running 0"))`, 5000);
  });
  await test('a reload keeps the conversation, the options and the draft', async () => {
    await run('document.getElementById("temperature").value = "0.5"; document.getElementById("options").dispatchEvent(new Event("input"))');
    await send('Input.insertText', { text: 'a draft' });
    const before = await run('document.getElementById("messages").innerText');
    await run('window.isOld = true');
    await send('Page.reload');
    await until('the page again', '!window.isOld && document.getElementById("model")?.textContent.startsWith("gemma3")');
    assert.equal(await run('document.getElementById("messages").innerText'), before);
    assert.equal(await run('document.getElementById("temperature").value'), '0.5');
    assert.equal(await run('document.getElementById("text").value'), 'a draft');
  });
  await test('a key ends with the tab unless it is to be kept', async () => {
    const type = (what) => run(`document.getElementById("key").value = ${JSON.stringify(what)}; document.getElementById("key").dispatchEvent(new Event("input", { bubbles: true }))`);
    const stored = (where) => run(`JSON.stringify(Object.entries(${where})).includes("secret-9")`);
    await type('secret-9');
    assert.equal(await stored('localStorage'), false);
    assert.equal(await stored('sessionStorage'), true);
    await run('document.getElementById("keep-key").click()');
    assert.equal(await stored('localStorage'), true);
    await run('document.getElementById("keep-key").click()');
    assert.equal(await stored('localStorage'), false);
    await type('');
    assert.equal(await stored('sessionStorage'), false);
  });
  await test('400 pixels wide, light and dark', async () => {
    await send('Emulation.setDeviceMetricsOverride', { width: 400, height: 700, deviceScaleFactor: 2, mobile: true });
    await key('o', 79, 1);
    assert.ok(!(await run('document.getElementById("options").hidden')));
    const wide = await run('[...document.querySelectorAll("body *")].filter((e) => !e.closest("pre") && e.getBoundingClientRect().right > 401).map((e) => e.tagName + "#" + e.id)');
    assert.deepEqual(wide, []);
    assert.ok(await run('document.documentElement.scrollWidth <= 400 && document.getElementById("send").getBoundingClientRect().bottom <= 700'));
    const back = async (scheme) => {
      await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
      return run('getComputedStyle(document.body).backgroundColor');
    };
    assert.notEqual(await back('light'), await back('dark'));
  });
  await test('an error is shown', async () => {
    await run('document.getElementById("text").value = "x ".repeat(5000)');
    await run('document.getElementById("text").focus()');
    await enter();
    await until('the error', '/maximum context length/.test([...document.querySelectorAll(".wrong")].pop()?.textContent ?? "")', 10000);
  });
  await test('pictures by paste and by drop', async () => {
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
    await run(`(() => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob('${png}'), (c) => c.charCodeAt(0))], 'one.png', { type: 'image/png' }));
      document.getElementById('text').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
    })()`);
    await until('both', 'document.querySelectorAll("#pictures img").length === 2');
    await run('document.querySelector("#pictures button").click()');
    await until('one of them', 'document.querySelectorAll("#pictures img").length === 1');
    await run('document.getElementById("text").value = "What is this?"');
    await run('document.getElementById("text").focus()');
    await enter();
    await until('the picture in the message', 'document.querySelectorAll(".user .message img").length === 1');
    await until('that the model is blind', '/takes no pictures/.test([...document.querySelectorAll(".wrong")].pop()?.textContent ?? "")', 10000);
  });
  await test('Alt+N forgets', async () => {
    await key('n', 78, 1);
    assert.equal(await run('document.getElementById("messages").textContent'), '');
  });
  await test('nothing comes from elsewhere, and nothing went wrong', async () => {
    assert.deepEqual(requests.filter((u) => !u.startsWith(url) && !u.startsWith('data:')), []);
    assert.deepEqual(problems, []);
  });
} finally {
  console.log(await close() + ' tests of the page passed');
}
process.exit();
