// Every schema of the corpus, sampled from a model at temperature 1 and checked by ajv:
//   node schemas.mjs URL FOLDER-OF-node_modules CORPUS SAMPLES   (tests/golden/serve.sh whole)
import { readFileSync } from 'node:fs';
import { load } from './testing.mjs';

const [url, modules, corpus, samples] = process.argv.slice(2);
const { default: Ajv } = await load(modules, 'ajv/dist/2020');
let valid = 0, cut = 0, wrong = 0, odd = 0, first = null;

for (const schema of JSON.parse(readFileSync(corpus, 'utf8')).schemas) {
  let check;
  try {
    check = new Ajv({ strict: false, validateFormats: false }).compile(schema);
  } catch (e) { // what people write and Ajv refuses: a name twice in `required`, a reference past an $id
    odd++;
    continue;
  }
  const response = await fetch(url + '/v1/completions', {
    method: 'POST', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ prompt: 'KING:', n: Number(samples), temperature: 1, seed: 1, max_tokens: 220,
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }),
  });
  const answer = await response.json();
  if (!answer.choices) {
    console.error('refused: ' + JSON.stringify(schema) + ': ' + JSON.stringify(answer));
    wrong++;
    continue;
  }
  for (const c of answer.choices) {
    if (c.finish_reason === 'length') { // strings and lists without a bound: what is there may go on
      cut++;
      continue;
    }
    let good = false;
    try {
      good = check(JSON.parse(c.text));
    } catch (e) { /* no JSON */ }
    if (good) valid++;
    else if (wrong++ === 0) first = JSON.stringify(schema) + ': ' + c.text;
  }
}
console.log(`${valid} valid, ${cut} cut by their length, ${wrong} wrong; ${odd} schemas are none to ajv`);
if (first) console.error(first);
process.exit(wrong || odd > 2 || valid < 4 * cut ? 1 : 0);
