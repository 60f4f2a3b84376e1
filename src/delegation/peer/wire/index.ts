/** What managers say to each other about jobs (docs/peer-protocol.md): bodies and queries, read and written by both sides. */

export { readCode } from './code.ts';
export { longestBody, wrapEvent } from './event-text.ts';
export { jobId, readAttempt, writeAttempt } from './names.ts';
export { readOffer, readOpened, readTaken, traceIn, writeOffer, writeOpened } from './offer.ts';
export { readPermit, writePermit } from './permit.ts';
export { readReport, writeReport } from './report.ts';
export { readStatus, writeStatus } from './status.ts';
