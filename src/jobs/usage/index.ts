export { byService, byUser, type Tally, tally } from './tally.ts';
export { type Range, type UsageDeps, usageOfService, type VisibleRow, visibleUsage } from './visible-usage.ts';
