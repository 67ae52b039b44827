// Speech over HTTP by OpenAI's own client:   node speech.mjs URL FOLDER-OF-node_modules FILE   (tests/golden/speech_serve.sh whole)
import { createReadStream } from 'node:fs';
import assert from 'node:assert/strict';
import { load, passed, test } from './testing.mjs';

const [url, modules, file] = process.argv.slice(2);
const { default: OpenAI } = await load(modules, 'openai');
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const ask = (more = {}) => ({ model, file: createReadStream(file), ...more });
const whole = (await client.audio.transcriptions.create(ask())).text;

await test('JSON has the text', async () => assert.ok(whole.length > 0));
await test('verbose JSON has segments with times', async () => {
  const r = await client.audio.transcriptions.create(ask({ response_format: 'verbose_json', timestamp_granularities: ['segment'] }));
  assert.equal(r.task, 'transcribe');
  assert.equal(r.text, whole);
  assert.ok(r.segments.length > 0);
  for (const s of r.segments) assert.ok(s.start < s.end && Array.isArray(s.tokens) && s.avg_logprob <= 0);
});
for (const response_format of ['text', 'srt', 'vtt'])
  await test(response_format + ' is a text', async () => {
    const r = await client.audio.transcriptions.create(ask({ response_format }));
    assert.equal(typeof r, 'string');
    if (response_format !== 'text') assert.match(r, /-->/);
  });
await test('a stream gives pieces that are the whole', async () => {
  let text = '', done = '';
  for await (const event of await client.audio.transcriptions.create(ask({ stream: true })))
    if (event.type === 'transcript.text.delta') text += event.delta;
    else if (event.type === 'transcript.text.done') done = event.text;
  assert.equal(text, done);
  assert.equal(done, whole);
});
await test('translations', async () => {
  const r = await client.audio.translations.create(ask({ response_format: 'verbose_json' }));
  assert.equal(r.task, 'translate');
});
await test('language, prompt, temperature', async () => {
  const r = await client.audio.transcriptions.create(ask({ language: 'fr', prompt: 'Paris', temperature: 0.2, response_format: 'verbose_json' }));
  assert.equal(r.language, 'french');
});
await test('several at a time', async () => {
  const all = await Promise.all([1, 2, 3, 4].map(() => client.audio.transcriptions.create(ask())));
  for (const r of all) assert.equal(r.text, whole);
});
await test('what is wrong is 400', async () => {
  const wrong = [{ timestamp_granularities: ['word'] }, { language: 'xx' }, { response_format: 'diarized_json' }];
  for (const w of wrong)
    await assert.rejects(client.audio.transcriptions.create(ask(w)), (e) => e.status === 400 && e.type === 'invalid_request_error');
});
await test('a client that leaves does not hold up the next', async () => {
  const stop = new AbortController();
  const stream = await client.audio.transcriptions.create(ask({ stream: true }), { signal: stop.signal }).catch(() => null);
  stop.abort();
  void stream;
  assert.equal((await client.audio.transcriptions.create(ask())).text, whole);
});
passed();
