// Doppler for Node, for `import`.
export { DopplerError, Model } from './index.cjs';
