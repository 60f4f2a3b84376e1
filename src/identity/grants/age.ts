import type { Grant } from './grant.ts';

/** Milliseconds since its token was brought. Whoever shows it decides when to warn. */
export function ageOf({ createdAt }: Pick<Grant, 'createdAt'>, now: number): number {
  return Math.max(0, now - createdAt);
}
