// The chat page in headless Chromium:   node page.mjs URL CHROMIUM   (tests/golden/serve.sh whole)
// Speaks the browser's own protocol over a pipe; needs no package.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import assert from 'node:assert/strict';

const [url, chromium] = process.argv.slice(2);
const profile = mkdtempSync(tmpdir() + '/chromium-');
const browser = spawn(chromium, ['--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', '--user-data-dir=' + profile],
  { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
const waiting = new Map();
const requests = [];
const problems = [];
let number = 0, rest = '', session;

browser.stdio[4].on('data', (bytes) => {
  const parts = (rest + bytes).split('\0');
  rest = parts.pop();
  for (const p of parts) {
    const m = JSON.parse(p);
    if (m.id) {
      const [yes, no] = waiting.get(m.id);
      waiting.delete(m.id);
      m.error ? no(new Error(m.error.message)) : yes(m.result);
    } else if (m.method === 'Network.requestWillBeSent') {
      requests.push(m.params.request.url);
    } else if (m.method === 'Runtime.exceptionThrown') {
      problems.push(m.params.exceptionDetails.exception?.description ?? m.params.exceptionDetails.text);
    }
  }
});
const send = (method, params = {}) => new Promise((yes, no) => {
  waiting.set(++number, [yes, no]);
  browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId: session }) + '\0');
});
const run = async (expression) => {
  const r = await send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
  if (r.exceptionDetails) throw new Error(r.exceptionDetails.exception?.description ?? expression);
  return r.result.value;
};
const until = async (what, expression, ms = 60000) => {
  for (const end = Date.now() + ms; Date.now() < end;) {
    if (await run(expression)) return;
    await new Promise((r) => setTimeout(r, 30));
  }
  throw new Error('never came: ' + what);
};
const key = async (name, code, modifiers = 0, text) => {
  await send('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', key: name, code: name, windowsVirtualKeyCode: code, modifiers, text });
  await send('Input.dispatchKeyEvent', { type: 'keyUp', key: name, code: name, windowsVirtualKeyCode: code, modifiers });
};
const enter = () => key('Enter', 13, 0, '\r');
const answers = 'document.querySelectorAll(".assistant .message")';
const idle = '!document.getElementById("send").hidden';
let count = 0;
async function test(name, fn) {
  try {
    await fn();
    count++;
  } catch (e) {
    console.error('FAILED ' + name + ': ' + e.stack);
    process.exitCode = 1;
  }
}

try {
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
  session = (await send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
  for (const domain of ['Page', 'Runtime', 'Network']) await send(domain + '.enable');
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
  await test('Alt+N forgets', async () => {
    await key('n', 78, 1);
    assert.equal(await run('document.getElementById("messages").textContent'), '');
  });
  await test('nothing comes from elsewhere, and nothing went wrong', async () => {
    assert.deepEqual(requests.filter((u) => !u.startsWith(url) && !u.startsWith('data:')), []);
    assert.deepEqual(problems, []);
  });
} finally {
  const gone = new Promise((r) => browser.on('exit', r));
  session = undefined;
  send('Browser.close').catch(() => {});
  const late = setTimeout(() => browser.kill('SIGKILL'), 5000);
  await gone;
  clearTimeout(late);
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
console.log(count + ' tests of the page passed');
process.exit();
