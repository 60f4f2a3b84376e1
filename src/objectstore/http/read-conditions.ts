import { S3Error } from '../errors.ts';
import { matchesETag, type WriteConditions } from '../store/conditions.ts';
import type { ObjectRecord } from '../store/object.ts';

type Header = (name: string) => string | undefined;

/** Of the four conditions of RFC 9110 §13.1, under their names or S3's for the source of a copy. */
interface Conditions {
  readonly match: string | undefined;
  readonly noneMatch: string | undefined;
  readonly modifiedSince: number | undefined;
  readonly unmodifiedSince: number | undefined;
}

function conditionsIn(header: Header, prefix = ''): Conditions {
  return {
    match: header(`${prefix}if-match`),
    noneMatch: header(`${prefix}if-none-match`),
    modifiedSince: secondsOf(header(`${prefix}if-modified-since`)),
    unmodifiedSince: secondsOf(header(`${prefix}if-unmodified-since`)),
  };
}

type Outcome = 'send' | 'not-modified' | 'failed';

/** In the order of RFC 9110 §13.2.2. HTTP knows whole seconds only. */
function evaluate({ match, noneMatch, modifiedSince, unmodifiedSince }: Conditions, object: ObjectRecord): Outcome {
  const modified = Math.floor(object.modified / 1000);
  if (match !== undefined) {
    if (!matchesETag(match, object.eTag)) return 'failed';
  } else if (unmodifiedSince !== undefined && modified > unmodifiedSince) return 'failed';
  if (noneMatch !== undefined) return matchesETag(noneMatch, object.eTag) ? 'not-modified' : 'send';
  return modifiedSince !== undefined && modified <= modifiedSince ? 'not-modified' : 'send';
}

/** Throws 412; says whether the client has it already. */
export function isModified(header: Header, object: ObjectRecord): boolean {
  const outcome = evaluate(conditionsIn(header), object);
  if (outcome === 'failed') throw new S3Error('PreconditionFailed');
  return outcome === 'send';
}

/** Of a copy: whatever does not hold is 412. */
export function checkSourceConditions(header: Header, source: ObjectRecord): void {
  if (evaluate(conditionsIn(header, 'x-amz-copy-source-'), source) !== 'send') throw new S3Error('PreconditionFailed');
}

export function writeConditionsIn(header: Header): WriteConditions {
  const [ifMatch, ifNoneMatch] = [header('if-match'), header('if-none-match')];
  return { ...(ifMatch !== undefined && { ifMatch }), ...(ifNoneMatch !== undefined && { ifNoneMatch }) };
}

function secondsOf(text: string | undefined): number | undefined {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? undefined : Math.floor(time / 1000);
}
