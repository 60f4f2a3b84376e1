export { type CommitOrder, type CommitResult, commit } from './commit.ts';
export type { CommitDeps } from './commit-deps.ts';
export { stagingArea, sweepStaging } from './staging-area.ts';
