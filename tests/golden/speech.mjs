// Writes what whisper.cpp's build of npm (@fugood/whisper.node) hears in a file (tests/golden/speech.sh whole):
//   node speech.mjs FOLDER-OF-node_modules VARIANT MODEL.bin FILE.wav        VARIANT: default, vulkan or cuda
// No hotter attempts, English: as doppler-exec --temp 0 --language en.  How fast it is: tests/bench/speech.sh.
import { createRequire } from 'node:module';

const [modules, variant, model, file] = process.argv.slice(2);
const { initWhisper } = createRequire(modules + '/')('@fugood/whisper.node');
const context = await initWhisper({ filePath: model, useGpu: variant !== 'default' }, variant);
const { promise } = context.transcribeFile(file, { language: 'en', temperature: 0, temperatureInc: 0, beamSize: 1, bestOf: 1 });
console.log((await promise).result.trim());
await context.release();
