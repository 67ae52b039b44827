// How fast whisper.cpp writes down a file, by its build of npm (@fugood/whisper.node), beside doppler-exec --audio:
//   node speech.mjs FOLDER-OF-node_modules VARIANT MODEL.bin FILE.wav [text]        VARIANT: default, vulkan or cuda
// text: writes what it has heard, and nothing else.
// MODEL.bin of random weights is made by tests/tools/speech_model.  No hotter attempts, English: as --temp 0 --language en.
import { createRequire } from 'node:module';

const [modules, variant, model, file, text] = process.argv.slice(2);
const { initWhisper } = createRequire(modules + '/')('@fugood/whisper.node');
const context = await initWhisper({ filePath: model, useGpu: variant !== 'default' }, variant);
for (let run = 0; run < (text ? 1 : 2); run++) {
  const begin = performance.now();
  const { promise } = context.transcribeFile(file, { language: 'en', temperature: 0, temperatureInc: 0, beamSize: 1, bestOf: 1 });
  const r = await promise;
  const s = (performance.now() - begin) / 1e3;
  if (text) console.log(r.result.trim());
  else console.log(`run ${run}: ${s.toFixed(2)} s, ${r.segments.length} segments: ${JSON.stringify(r.result).slice(0, 200)}`);
}
await context.release();
