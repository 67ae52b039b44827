// The drawing tab: images from texts, by POST v1/images/generations. Images are lost when the page is left; the input fields are kept.
const drawFields = ['text', 'negative', 'steps', 'guidance', 'seed', 'n', 'sampler'];
let drawing = null; // AbortController of the images in progress

function keepDrawFields() {
  store.write(kept + '-draw', Object.fromEntries(drawFields.map((f) => [f, $('draw-' + f).value])));
}
function restoreDrawFields() {
  const was = store.read(kept + '-draw') || {};
  for (const f of drawFields) if (typeof was[f] === 'string') $('draw-' + f).value = was[f];
}

function view(draws) {
  $('draw').hidden = !draws;
  $('talk').hidden = draws;
  for (const id of ['list-open', 'clear']) $(id).hidden = draws;
  if (draws && !$('list').hidden) list();
  $('to-draw').setAttribute('aria-selected', String(draws));
  $('to-talk').setAttribute('aria-selected', String(!draws));
  (draws ? $('draw-text') : $('text')).focus();
}
function toTalk() { view(false); }
function toDraw() { view(true); }
// Sets up the page for the chosen model. facts: {width, height, steps, guidance}; null: it draws no images.
function drawWith(facts) {
  for (const f of ['steps', 'guidance']) $('draw-' + f).placeholder = facts ? String(facts[f]) : 'model\'s';
  $('draw-text').placeholder = facts ? `What to draw, in ${facts.width} x ${facts.height}` : 'What to draw';
  if (facts) toDraw();
  else toTalk();
}

function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
// Returns the text with this keyword in a PNG file (uncompressed iTXt chunk), or ''.
function textOfPng(bytes, key) {
  const decode = (from, to) => new TextDecoder().decode(bytes.subarray(from, to));
  for (let at = 8; at + 12 <= bytes.length;) {
    const n = (bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3]) >>> 0;
    const data = at + 8, end = data + n, name = bytes.indexOf(0, data);
    if (decode(at + 4, at + 8) === 'iTXt' && decode(data, name) === key && bytes[name + 1] === 0) {
      const from = bytes.indexOf(0, bytes.indexOf(0, name + 3) + 1) + 1;
      return decode(from, end);
    }
    at = end + 4;
  }
  return '';
}

function addPicture(asked, made) {
  const bytes = bytesOf(made.b64_json), parameters = textOfPng(bytes, 'parameters');
  const url = 'data:image/png;base64,' + made.b64_json;
  const box = document.createElement('figure'), img = document.createElement('img'), caption = document.createElement('figcaption');
  const text = document.createElement('b'), settings = document.createElement('div'), tools = document.createElement('div'), save = document.createElement('a');
  img.src = url;
  img.alt = asked.prompt;
  text.textContent = asked.prompt;
  settings.textContent = parameters.startsWith(asked.prompt) ? parameters.slice(asked.prompt.length).trim() : parameters;
  caption.append(text, settings);
  save.href = url;
  save.download = `picture-${made.seed}.png`;
  save.textContent = 'Save';
  tools.className = 'tools';
  tools.append(save, tool('Copy settings', 'Copy the text and the settings', (button) => copy(parameters, button)),
    tool('Use settings', 'Put the text and the settings of this picture below', () => {
      for (const [f, v] of Object.entries({ text: asked.prompt, negative: asked.negative, steps: asked.steps, guidance: asked.guidance, sampler: asked.sampler, seed: made.seed, n: '' })) $('draw-' + f).value = v ?? '';
      keepDrawFields();
      grow($('draw-text'));
      $('draw-text').focus();
    }),
    tool('\u00d7', 'Take this picture away', () => { box.remove(); emptyDrawings(); $('draw-text').focus(); }));
  box.append(img, caption, tools);
  $('drawings').prepend(box);
  emptyDrawings();
}
function emptyDrawings() {
  const there = $('no-drawings'), any = $('drawings').querySelector('figure');
  if (there && any) there.remove();
  if (there || any) return;
  const empty = document.createElement('p');
  empty.id = 'no-drawings';
  empty.className = 'note';
  empty.textContent = 'Say below what to draw. Enter draws, Shift+Enter begins a line.';
  $('drawings').append(empty);
}
function drawBusy(is) {
  $('draw-send').hidden = is;
  $('draw-stop').hidden = !is;
  $('draw-progress').hidden = !is;
  $('draw-progress').value = 0;
}

// Reads the comments (progress) and events of a stream.
async function readDrawings(response, asked) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', n = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return n;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    for (const p of parts) {
      const at = p.match(/^: picture (\d+) of (\d+), step (\d+) of (\d+)/);
      if (at) {
        const [, i, all, step, steps] = at.map(Number);
        $('draw-progress').value = (i - 1 + step / (steps + 1)) / all;
        $('state').textContent = step === steps ? 'decoding' : `${all > 1 ? `picture ${i} of ${all}, ` : ''}step ${step + 1} of ${steps}`;
      }
      const data = p.split('\n').find((line) => line.startsWith('data: '));
      if (!data || data === 'data: [DONE]') continue;
      const event = JSON.parse(data.slice(6));
      if (event.error) throw new Error(event.error.message);
      if (event.b64_json) { addPicture(asked, event); n++; }
    }
  }
}
async function drawNow() {
  const text = $('draw-text').value.trim();
  if (!text || drawing) return;
  const mine = drawing = new AbortController();
  const asked = { prompt: text, stream: true };
  for (const f of ['negative', 'sampler']) if ($('draw-' + f).value.trim()) asked[f] = $('draw-' + f).value.trim();
  for (const f of ['steps', 'guidance', 'seed', 'n']) if ($('draw-' + f).value !== '') asked[f] = Number($('draw-' + f).value);
  if (model) asked.model = model;
  const begin = performance.now();
  drawBusy(true);
  $('state').textContent = 'waiting';
  try {
    const response = await fetch('v1/images/generations', { method: 'POST', headers: headers(), body: JSON.stringify(asked), signal: mine.signal });
    if (!response.ok) {
      const error = await response.json().catch(() => null);
      throw new Error((error && error.error && error.error.message) || 'the server answered ' + response.status);
    }
    const n = await readDrawings(response, asked);
    $('state').textContent = `${n} picture${n === 1 ? '' : 's'} in ${((performance.now() - begin) / 1000).toFixed(1)} s`;
  } catch (error) {
    $('state').textContent = error.name === 'AbortError' ? 'stopped' : error.message;
  }
  drawing = null;
  drawBusy(false);
  if (document.activeElement === document.body) $('draw-text').focus();
}

$('to-talk').addEventListener('click', toTalk);
$('to-draw').addEventListener('click', toDraw);
$('draw-ask').addEventListener('submit', (e) => { e.preventDefault(); drawNow(); });
$('draw-ask').addEventListener('input', keepDrawFields);
$('draw-text').addEventListener('input', () => grow($('draw-text')));
$('draw-text').addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); drawNow(); }
});
$('draw-stop').addEventListener('click', () => { if (drawing) drawing.abort(); });
restoreDrawFields();
emptyDrawings();
