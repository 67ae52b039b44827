// Headless Chromium for the tests of pages.  Speaks the browser's own protocol over a pipe; needs no package.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';

// Gives what tests use; requests and problems grow as the page loads things and throws.
export async function openBrowser(chromium, options = []) {
  const profile = mkdtempSync(tmpdir() + '/chromium-');
  const browser = spawn(chromium, ['--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', '--user-data-dir=' + profile, ...options],
    { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
  const waiting = new Map();
  const requests = [];
  const problems = [];
  let number = 0, rest = '', session, count = 0;

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
  const mouse = (type, x, y) => send('Input.dispatchMouseEvent', { type, x, y, button: type === 'mouseMoved' ? 'none' : 'left', clickCount: 1 });
  const width = (pixels) => send('Emulation.setDeviceMetricsOverride', { width: pixels, height: 700, deviceScaleFactor: 2, mobile: pixels < 500 });
  const picture = async (file) => {
    const { data } = await send('Page.captureScreenshot', { captureBeyondViewport: true });
    writeFileSync(file, Buffer.from(data, 'base64'));
  };
  const test = async (name, fn) => {
    try {
      await fn();
      count++;
    } catch (e) {
      console.error('FAILED ' + name + ': ' + e.stack);
      process.exitCode = 1;
    }
  };
  const close = async () => {
    const gone = new Promise((r) => browser.on('exit', r));
    session = undefined;
    send('Browser.close').catch(() => {});
    const late = setTimeout(() => browser.kill('SIGKILL'), 5000);
    await gone;
    clearTimeout(late);
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    return count;
  };
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
  session = (await send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
  for (const domain of ['Page', 'Runtime', 'Network']) await send(domain + '.enable');
  return { send, run, until, key, mouse, width, picture, test, close, requests, problems };
}
