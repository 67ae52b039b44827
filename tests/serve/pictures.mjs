// Pictures over HTTP by OpenAI's and Anthropic's own clients, and in the page in headless Chromium (tests/golden/pictures_served.sh whole):
//   node pictures.mjs URL FOLDER-OF-node_modules FILE.png ADDRESS [CHROMIUM]
// ADDRESS has the bytes of FILE.png, and the server fetches it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { openBrowser } from './browser.mjs';
import { load, passed, test } from './testing.mjs';

const [url, folder, file, address, chromium] = process.argv.slice(2);
const { default: Anthropic } = await load(folder, '@anthropic-ai/sdk');
const { default: OpenAI } = await load(folder, 'openai');
const a = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
const o = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const model = 'any', bytes = fs.readFileSync(file).toString('base64'), data = 'data:image/png;base64,' + bytes;
const ask = { model, max_tokens: 6, temperature: 0 }, text = 'What is this?';
let first;

await test('chat completions, whole and streamed', async () => {
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: data, detail: 'high' } }, { type: 'text', text }] }];
  const r = await o.chat.completions.create({ ...ask, messages });
  first = r.choices[0].message.content;
  assert.ok(first.length > 0 && r.usage.prompt_tokens > 5);
  let streamed = '';
  for await (const part of await o.chat.completions.create({ ...ask, messages, stream: true })) streamed += part.choices[0]?.delta?.content ?? '';
  assert.equal(streamed, first);
  messages[0].content[0].image_url.url = address;
  assert.equal((await o.chat.completions.create({ ...ask, messages })).choices[0].message.content, first);
  messages[0].content.unshift({ type: 'text', text: 'Look:' }, { type: 'image_url', image_url: { url: data } });
  assert.ok((await o.chat.completions.create({ ...ask, messages })).usage.prompt_tokens > r.usage.prompt_tokens);
});
await test('chat completions: a wrong picture is an error of its request', async () => {
  const wrong = (u) => o.chat.completions.create({ ...ask, messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: u } }] }] });
  await assert.rejects(wrong('data:image/png;base64,aGVsbG8='), (e) => e.status === 400 && /no picture of a known kind/.test(e.message));
  await assert.rejects(wrong(address + '/none'), (e) => e.status === 400 && /answers 404/.test(e.message));
});
await test('responses', async () => {
  const input = [{ role: 'user', content: [{ type: 'input_image', image_url: data, detail: 'auto' }, { type: 'input_text', text }] }];
  const r = await o.responses.create({ model, input, max_output_tokens: 16, temperature: 0 });
  assert.ok(r.output_text.startsWith(first));
  const next = await o.responses.create({ model, previous_response_id: r.id, input: 'And now?', max_output_tokens: 16 });
  assert.ok(next.usage.input_tokens > r.usage.input_tokens, 'the picture is still there');
});
await test('messages', async () => {
  const image = (source) => [{ role: 'user', content: [{ type: 'image', source }, { type: 'text', text }] }];
  const messages = image({ type: 'base64', media_type: 'image/png', data: bytes });
  const m = await a.messages.create({ ...ask, messages });
  assert.equal(m.content[0].text, first);
  assert.equal((await a.messages.create({ ...ask, messages: image({ type: 'url', url: address }) })).content[0].text, first);
  const n = await a.messages.countTokens({ model, messages });
  assert.equal(n.input_tokens, m.usage.input_tokens + m.usage.cache_read_input_tokens);
});
if (chromium) {
  const { send, run, until, key, close, problems } = await openBrowser(chromium);
  const drop = (kind) => run(`(() => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob('${bytes}'), (c) => c.charCodeAt(0))], 'one.png', { type: 'image/png' }));
    ${kind === 'paste' ? `document.getElementById('text').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`
                       : `document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }))`};
  })()`);
  const answers = 'document.querySelectorAll(".assistant .message")', idle = '!document.getElementById("send").hidden';
  try {
    await send('Page.navigate', { url: url + '/' });
    await until('the page', 'document.activeElement?.id === "text"');
    for (const [i, kind] of ['paste', 'drop'].entries())
      await test('the page: a picture by ' + kind + ' is answered', async () => {
        await drop(kind);
        await until('the picture', 'document.querySelectorAll("#pictures img").length === 1');
        await run('document.getElementById("tokens").value = "4"');
        await send('Input.insertText', { text });
        await key('Enter', 13, 0, '\r');
        await until('an answer', `${answers}.length === ${i + 1} && ${answers}[${i}].textContent.length > 0 && ${idle}`, 60000);
        assert.equal(await run('document.querySelectorAll(".user .message img").length'), i + 1);
        assert.equal(await run('document.querySelectorAll(".wrong").length'), 0);
      });
    assert.deepEqual(problems, []);
  } finally {
    close();
  }
}
passed();
