// What tests of this folder share: tests by name, of which all run, and packages of a folder.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

let count = 0;

// A test that fails is told, and the process ends with 1.
export async function test(name, fn) {
  try {
    await fn();
    count++;
  } catch (e) {
    console.error('FAILED ' + name + ': ' + (e.stack || e));
    process.exitCode = 1;
  }
}

export const passed = () => console.log(count + ' tests passed');

// A package below a folder of node_modules.
export const load = (folder, name) => import(pathToFileURL(createRequire(folder + '/').resolve(name)));
