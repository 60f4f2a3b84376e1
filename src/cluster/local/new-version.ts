import { randomBytes } from 'node:crypto';
import type { Version } from '../version.ts';

/** Random rather than counted, so that it does not repeat when a name is used again or a backup is restored. */
export function newVersion(): Version {
  return randomBytes(12).toString('base64url') as Version;
}
