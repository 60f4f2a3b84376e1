import { S3Error } from '../errors.ts';

/** What must hold of the object that a write replaces. ETags as clients send them: quoted or not, a list, or `*`. */
export interface WriteConditions {
  readonly ifMatch?: string;
  readonly ifNoneMatch?: string;
}

export function matchesETag(list: string, eTag: string): boolean {
  return list.split(',').some((each) => {
    const wanted = each.trim();
    return wanted === '*' || wanted.replace(/^W\//, '').replace(/^"(.*)"$/, '$1') === eTag;
  });
}

/** S3: If-Match of a key that does not exist is 404, everything else that does not hold is 412. */
export function checkWriteConditions(
  { ifMatch, ifNoneMatch }: WriteConditions,
  existing: { readonly eTag: string } | undefined,
): void {
  if (ifMatch !== undefined) {
    if (!existing) throw new S3Error('NoSuchKey');
    if (!matchesETag(ifMatch, existing.eTag)) throw new S3Error('PreconditionFailed');
  }
  if (ifNoneMatch !== undefined && existing && matchesETag(ifNoneMatch, existing.eTag)) {
    throw new S3Error('PreconditionFailed');
  }
}
