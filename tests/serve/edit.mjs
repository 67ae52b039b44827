// Pictures that begin with a picture, by OpenAI's own client:   node edit.mjs URL FOLDER-OF-node_modules PICTURE
// (tests/golden/draw_serve.sh whole).  The model draws 24 x 16.
import { createReadStream } from 'node:fs';
import { deflateSync } from 'node:zlib';
import assert from 'node:assert/strict';
import { load, passed, test } from './testing.mjs';

const [url, modules, file] = process.argv.slice(2);
const { default: OpenAI } = await load(modules, 'openai');
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const ask = (more = {}) => ({ model, image: createReadStream(file), prompt: 'a red house', seed: 4, steps: 4, ...more });
const first = (await client.images.edit(ask())).data[0].b64_json;

await test('a picture of the size', async () => {
  const png = Buffer.from(first, 'base64');
  assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [24, 16]);
  assert.ok(png.includes('Denoising strength: 0.8'));
});
await test('n, strength, a list of one picture', async () => {
  const r = await client.images.edit(ask({ image: [createReadStream(file)], n: 2, strength: 0.8, response_format: 'b64_json', size: '24x16' }));
  assert.deepEqual(r.data.map((d) => d.seed), [4, 5]);
  assert.equal(r.data[0].b64_json, first);
  assert.notEqual((await client.images.edit(ask({ strength: 0.3 }))).data[0].b64_json, first);
});
await test('a picture that was generated is edited', async () => {
  const made = (await client.images.generate({ model, prompt: 'a house', steps: 2 })).data[0].b64_json;
  const image = await OpenAI.toFile(Buffer.from(made, 'base64'), 'made.png', { type: 'image/png' });
  assert.ok((await client.images.edit(ask({ image }))).data[0].b64_json);
});
await test('a mask keeps the rest', async () => {
  // Transparent in the left half: 24 x 16 pixels of RGBA, each row behind its filter's number.
  const rows = Buffer.alloc(16 * 97, 255);
  for (let y = 0; y < 16; y++) rows.fill(0, y * 97, y * 97 + 49);
  const crc32 = (bytes) => {
    let crc = -1;
    for (const byte of bytes) {
      crc ^= byte;
      for (let k = 0; k < 8; k++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc >>> 0;
  };
  const chunk = (type, data) => {
    const out = Buffer.alloc(12 + data.length);
    out.writeUInt32BE(data.length);
    out.write(type, 4);
    data.copy(out, 8);
    out.writeUInt32BE(crc32(out.subarray(4, 8 + data.length)), 8 + data.length);
    return out;
  };
  const head = Buffer.from([0, 0, 0, 24, 0, 0, 0, 16, 8, 6, 0, 0, 0]);
  const png = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', deflateSync(rows)), chunk('IEND', Buffer.alloc(0))]);
  const image = () => OpenAI.toFile(Buffer.from(first, 'base64'), 'first.png', { type: 'image/png' });
  const mask = () => OpenAI.toFile(png, 'mask.png', { type: 'image/png' });
  const made = async (more) => (await client.images.edit(ask({ image: await image(), ...more }))).data[0].b64_json;
  const masked = await made({ mask: await mask() });
  assert.equal(masked, await made({ mask: await mask() }));
  assert.notEqual(masked, await made({ strength: 1 }));
  const other = client.images.edit(ask({ mask: await mask() })); // of another size
  await assert.rejects(other, (e) => e.status === 400 && e.param === 'mask');
});
await test('a stream', async () => {
  const types = [];
  for await (const event of await client.images.edit(ask({ stream: true }))) types.push(event.type);
  assert.deepEqual(types, ['image_edit.completed']);
});
await test('refusals', async () => {
  const text = await OpenAI.toFile(Buffer.from('text'), 'x.png', { type: 'image/png' });
  const two = [createReadStream(file), createReadStream(file)];
  for (const wrong of [{ image: text }, { image: two }, { strength: 2 }, { n: 11 }, { mask: createReadStream(file) }, { prompt: undefined }, { size: '512x512' }])
    await assert.rejects(client.images.edit(ask(wrong)), (e) => e.status === 400 && e.type === 'invalid_request_error');
});
passed();
