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
  await test('Alt+N begins a conversation, and Alt+L finds the other one', async () => {
    await key('n', 78, 1);
    assert.equal(await run('document.querySelectorAll(".message").length'), 0);
    await key('l', 76, 1);
    assert.equal(await run('document.querySelectorAll("#list > div").length'), 1);
    assert.match(await run('document.activeElement.textContent'), /Speak to me/);
    await enter();
    await until('the old messages', 'document.querySelectorAll(".message").length > 4');
    await key('n', 78, 1);
  });
  const ask = async (text) => {
    await run('document.getElementById("text").focus()');
    await send('Input.insertText', { text });
    await enter();
    await until('an answer', `!${idle} || true`);
    await until('the end', idle);
  };
  const all = (what) => run(`JSON.stringify([...document.querySelectorAll(${JSON.stringify(what)})].map((e) => e.textContent))`).then(JSON.parse);
  const press = (what, name) => run(`[...document.querySelectorAll(${JSON.stringify(what)})].filter((b) => b.textContent === ${JSON.stringify(name)}).pop().click()`);
  await test('an answer again, and an edited message', async () => {
    await run('document.getElementById("tokens").value = "8"; document.getElementById("temperature").value = "1.5"; keepOptions()');
    await ask('First words');
    const before = (await all('.assistant .message'))[0];
    for (let i = 0; i < 4 && (await all('.assistant .message'))[0] === before; i++) {
      await press('.assistant .tools button', 'Again');
      await until('the end', idle);
    }
    assert.notEqual((await all('.assistant .message'))[0], before);
    assert.deepEqual(await all('.user .message'), ['First words']);
    await key('ArrowUp', 38);
    assert.equal(await run('document.activeElement.value'), 'First words');
    await key('Escape', 27);
    await key('ArrowUp', 38);
    await send('Input.insertText', { text: ', changed' });
    await enter();
    await until('the end', idle);
    assert.deepEqual(await all('.user .message'), ['First words, changed']);
    assert.equal((await all('.assistant .message')).length, 1);
    await ask('Second words');
    const n = await run('store.index.list.length');
    await press('.user:first-child .tools button', 'Edit');
    await enter();
    await until('the end', idle);
    assert.deepEqual(await all('.user .message'), ['First words, changed']);
    assert.equal(await run('store.index.list.length'), n + 1, 'what went is kept in a conversation of its own');
  });
  await test('all sampling settings are sent', async () => {
    const sent = await run(`(() => {
      for (const [f, v] of Object.entries({ top_p: 0.9, top_k: 20, min_p: 0.1, repeat_penalty: 1.1, seed: 7 })) $(f).value = v;
      return JSON.stringify(request());
    })()`).then(JSON.parse);
    assert.deepEqual([sent.temperature, sent.top_p, sent.top_k, sent.min_p, sent.repeat_penalty, sent.seed, sent.max_tokens], [1.5, 0.9, 20, 0.1, 1.1, 7, 8]);
    await run('document.getElementById("defaults").click()');
    assert.equal(await run('request().temperature'), undefined);
  });
  await test('a full context: the oldest is forgotten, or a new conversation begins', async () => {
    await key('n', 78, 1);
    await run('document.getElementById("tokens").value = "4"; keepOptions()');
    const words = (n) => Array.from({ length: n }, (_, i) => 'word' + i).join(' ');
    await ask(words(60));
    await ask(words(60));
    await ask(words(60));
    assert.match((await all('.assistant:last-child .note')).join(), /maximum context length/);
    await press('.offer button', 'Forget the oldest');
    await until('an answer', `!document.querySelector(".wrong") && ${idle}`);
    assert.ok((await all('.left .message')).length >= 2);
    assert.equal((await all('.user .message')).length, 3, 'all of it stays visible');
    assert.ok(await run('request().messages.length < messages.length'));
    await ask(words(60));
    await ask(words(60));
    await press('.offer button', 'New conversation');
    await until('an answer', `!document.querySelector(".wrong") && document.querySelectorAll(".message").length === 2 && ${idle}`);
  });
  await test('Markdown that is hostile runs nothing', async () => {
    await run(`(() => {
      messages = [{ role: 'assistant', content: '<img src=x onerror="window.hit=1"> <script>window.hit=1<\\/script> [a](javascript:window.hit=1) [b](https://b.example/) \\n\\n| <b>x</b> | y |\\n|-|-|\\n| 1 | 2 |\\n\\n\`\`\`js\\n</code><script>window.hit=1<\\/script>\\n\`\`\`' }];
      draw();
    })()`);
    assert.equal(await run('window.hit'), undefined);
    assert.deepEqual(await run('[...document.querySelectorAll(".message a")].map((a) => a.href + " " + a.rel)'), ['https://b.example/ noopener noreferrer nofollow']);
    assert.equal(await run('document.querySelectorAll(".message script, .message img, .message b").length'), 0);
    assert.deepEqual(await all('.message th'), ['<b>x</b>', 'y']);
    assert.equal(await run('document.querySelector(".code pre").textContent'), '</code><script>window.hit=1</script>');
  });
  await test('copying', async () => {
    await send('Browser.grantPermissions', { permissions: ['clipboardReadWrite', 'clipboardSanitizedWrite'] }).catch(() => {});
    await run('document.querySelector(".code button").click()');
    await until('that it says so', 'document.querySelector(".code button").textContent === "Copied"');
  });
  await test('a conversation is deleted, at the second click', async () => {
    const n = await run('store.index.list.length');
    await run('drawList(); document.querySelector("#list > div button:last-child").click()');
    assert.equal(await run('store.index.list.length'), n);
    await run('document.querySelector("#list > div button:last-child").click()');
    assert.equal(await run('store.index.list.length'), n - 1);
    assert.equal(await run('Object.keys(localStorage).filter((k) => /^doppler-chat-[^k]/.test(k)).length'), n - 1);
  });
  await test('storage that is full, off or damaged', async () => {
    assert.equal(await run(`(() => {
      const put = Storage.prototype.setItem;
      Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };
      try {
        startNew();
        messages = [{ role: 'user', content: 'unsaved' }];
        keep();
        const id = current;
        startNew();
        show(id);
        return messages[0].content + ' ' + /keeps no more/.test((keep(), $('state').textContent));
      } finally { Storage.prototype.setItem = put; }
    })()`), 'unsaved true');
    await run(`localStorage.setItem('doppler-chat', '{"list": [3, {"id": "q", "title": "<i>q"}], "current": "q", "options": 4}'); localStorage.setItem('doppler-chat-q', '[null, {"role": "evil"}, {"role": "user", "content": "<b>kept"}]'); onbeforeunload = null; addEventListener('beforeunload', (e) => e.stopImmediatePropagation(), true); window.isOld = true`);
    await run('window.keepOptions = () => {}; store.save = () => {}; 0');
    await send('Page.reload');
    await until('the page again', '!window.isOld && document.getElementById("model")?.textContent.startsWith("gemma3")');
    assert.deepEqual(await all('.message'), ['<b>kept']);
  });
  await test('what an earlier version kept', async () => {
    await run(`store.save = () => {}; localStorage.clear(); localStorage.setItem('doppler-chat', '{"messages": [{"role": "user", "content": "old"}], "options": {"system": "S"}, "draft": "d"}'); window.isOld = true`);
    await send('Page.reload');
    await until('the page again', '!window.isOld && document.getElementById("model")?.textContent.startsWith("gemma3")');
    assert.deepEqual(await all('.message'), ['old']);
    assert.equal(await run('$("system").value + $("text").value'), 'Sd');
  });
  for (const pixels of [400, 800, 1300]) {
    await test(`${pixels} pixels: nothing is cut off`, async () => {
      await send('Emulation.setDeviceMetricsOverride', { width: pixels, height: 700, deviceScaleFactor: 1, mobile: pixels < 500 });
      await run(`document.getElementById('list').hidden = false; messages = [{ role: 'user', content: 'w'.repeat(300) }, { role: 'assistant', content: '|a|b|\\n|-|-|\\n|' + 'x'.repeat(200) + '|' + 'y '.repeat(99) + '|\\n\\n    code\\n\\n\`\`\`\\n' + 'z'.repeat(300) + '\\n\`\`\`\\n' + 'https://e.example/' + 'u'.repeat(300) }]; draw()`);
      assert.deepEqual(await run(`[...document.querySelectorAll('body *')].filter((e) => !e.closest('pre, .table') && e.getBoundingClientRect().right > ${pixels + 1}).map((e) => e.tagName + '#' + e.id + '.' + e.className)`), []);
      await run("document.getElementById('list').hidden = true");
    });
  }
  await test('nothing comes from elsewhere, and nothing went wrong', async () => {
    assert.deepEqual(requests.filter((u) => !u.startsWith(url) && !u.startsWith('data:')), []);
    assert.deepEqual(problems, []);
  });
} finally {
  console.log(await close() + ' tests of the page passed');
}
process.exit();
