// Pictures over HTTP by OpenAI's own client:   node draw.mjs URL FOLDER-OF-node_modules   (tests/golden/draw_serve.sh whole)
// The model draws 24 x 16.
import assert from 'node:assert/strict';
import { load, passed, test } from './testing.mjs';

const [url, modules] = process.argv.slice(2);
const { default: OpenAI } = await load(modules, 'openai');
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const ask = { model, prompt: 'a red house', size: '24x16' };

await test('a picture is a PNG of the size', async () => {
  const r = await client.images.generate({ ...ask, seed: 4 });
  assert.equal(r.data.length, 1);
  assert.equal(r.size, '24x16');
  const png = Buffer.from(r.data[0].b64_json, 'base64');
  assert.equal(png.subarray(1, 4).toString(), 'PNG');
  assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [24, 16]);
  assert.ok(png.includes('a red house\nSteps: 1'));
});
await test('n pictures have seeds that follow one another; a seed gives the same bytes', async () => {
  const r = await client.images.generate({ ...ask, n: 3, seed: 4, response_format: 'b64_json' });
  const one = await client.images.generate({ ...ask, seed: 6 });
  assert.deepEqual(r.data.map((d) => d.seed), [4, 5, 6]);
  assert.equal(new Set(r.data.map((d) => d.b64_json)).size, 3);
  assert.equal(one.data[0].b64_json, r.data[2].b64_json);
});
await test('a URL has the bytes in it', async () => {
  const r = await client.images.generate({ ...ask, response_format: 'url' });
  assert.match(r.data[0].url, /^data:image\/png;base64,iVBOR/);
});
await test('a stream ends with each picture', async () => {
  const stream = await client.images.generate({ ...ask, n: 2, steps: 2, stream: true });
  const types = [];
  for await (const event of stream) {
    types.push(event.type);
    assert.equal(event.size, '24x16');
    assert.ok(event.b64_json.startsWith('iVBOR'));
  }
  assert.deepEqual(types, ['image_generation.completed', 'image_generation.completed']);
});
await test('refusals', async () => {
  for (const wrong of [{ size: '1024x1024' }, { n: 0 }, { prompt: undefined }, { steps: 5000 }, { sampler: 'best' }, { output_format: 'webp' }]) {
    await assert.rejects(client.images.generate({ ...ask, ...wrong }), (e) => e.status === 400 && e.type === 'invalid_request_error');
  }
  await assert.rejects(client.chat.completions.create({ model, messages: [{ role: 'user', content: 'x' }] }), (e) => e.status === 400);
});
await test('what is left is not drawn to its end', async () => {
  const stream = await client.images.generate({ ...ask, steps: 1000, n: 5, stream: true });
  stream.controller.abort();
  const begin = Date.now();
  await client.images.generate(ask);
  assert.ok(Date.now() - begin < 10000, 'the next one had to wait');
});
passed();
