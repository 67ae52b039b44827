// Pages of another site against a server on the loopback, in headless Chromium:   node foreign.mjs URL CHROMIUM
// (tests/errors/hostile.sh whole).  Whatever such a page sends, the model writes nothing; whatever it asks for, it reads nothing.
import assert from 'node:assert/strict';
import http from 'node:http';
import { openBrowser } from './browser.mjs';

const [url, chromium] = process.argv.slice(2);
const port = new URL(url).port;
const page = http.createServer((request, response) => {
  response.setHeader('Content-Type', 'text/html');
  response.end('<!doctype html><title>another site</title><body></body>');
});
await new Promise((r) => page.listen(0, '127.0.0.1', r));
const site = 'http://evil.example:' + page.address().port;
const { send, run, until, test, close } = await openBrowser(chromium,
  ['--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1']);
const body = JSON.stringify({ prompt: 'a', max_tokens: 3, ignore_eos: true });
const written = async () => Number(/doppler_written_tokens_total (\d+)/.exec(await (await fetch(url + '/metrics')).text())[1]);
const paths = ['/', '/health', '/metrics', '/v1/models'];

try {
  const before = await written();
  await send('Page.navigate', { url: site + '/' });
  await until('the page', 'document.title === "another site"');
  const attempts = {
    'a Blob without a type': `fetch(U, { method: 'POST', mode: 'no-cors', body: new Blob([B]) })`,
    'a Blob of text': `fetch(U, { method: 'POST', mode: 'no-cors', body: new Blob([B], { type: 'text/plain' }) })`,
    'an ArrayBuffer': `fetch(U, { method: 'POST', mode: 'no-cors', body: new TextEncoder().encode(B).buffer })`,
    'a text': `fetch(U, { method: 'POST', mode: 'no-cors', body: B })`,
    'parameters': `fetch(U, { method: 'POST', mode: 'no-cors', body: new URLSearchParams(B) })`,
    'form data': `fetch(U, { method: 'POST', mode: 'no-cors', body: (() => { const f = new FormData(); f.append('x', B); return f; })() })`,
    'a beacon': `Promise.resolve(navigator.sendBeacon(U, new Blob([B])))`,
    'a stream': `fetch(U, { method: 'POST', mode: 'no-cors', duplex: 'half', body: new Blob([B]).stream() })`,
    'JSON that asks first': `fetch(U, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: B })`,
    'XMLHttpRequest': `new Promise((y) => { const x = new XMLHttpRequest(); x.open('POST', U); x.onloadend = () => y(x.responseText); x.send(B); })`,
    'a form': `new Promise((y) => { const f = document.createElement('form'), i = document.createElement('input'), w = document.createElement('iframe');
      w.name = 'w'; w.onload = y; f.target = 'w'; f.action = U; f.method = 'POST'; f.enctype = 'text/plain';
      i.name = B.slice(0, -1) + ',"x":"'; i.value = '"}'; f.append(i); document.body.append(w, f); f.submit(); setTimeout(y, 1000); })`,
  };
  for (const [name, code] of Object.entries(attempts)) {
    await test(name, async () => {
      const read = await run(`(() => { const U = '${url}/v1/completions', B = ${JSON.stringify(body)};
        return ${code}.then((r) => r && r.text ? r.text() : String(r ?? ''), () => ''); })()`);
      assert.ok(!/text_completion|choices/.test(read), read);
    });
  }
  for (const path of paths) {
    await test('reading ' + path, async () => {
      const read = await run(`fetch('${url}${path}').then((r) => r.text(), () => 'refused')`);
      assert.equal(read, 'refused');
    });
  }
  // A name that is made to point to this machine: the page has the server's own origin, in the eyes of the browser.
  for (const path of paths) {
    await test('a name that points here: ' + path, async () => {
      await send('Page.navigate', { url: `http://rebound.example:${port}${path}` });
      await until('an answer', 'document.readyState === "complete" && document.body?.innerText.length > 0');
      assert.match(await run('document.body.innerText'), /unknown_host/);
    });
  }
  await test('a name that points here: POST', async () => {
    const read = await run(`fetch('/v1/completions', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: ${JSON.stringify(body)} }).then((r) => r.text(), () => '')`);
    assert.match(read, /unknown_host|^$/);
  });
  await test('nothing was written', async () => {
    await new Promise((r) => setTimeout(r, 500));
    assert.equal(await written(), before);
  });
} finally {
  console.log(`${await close()} tests`);
  page.close();
}
