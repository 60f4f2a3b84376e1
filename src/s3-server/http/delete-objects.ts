import { S3Error } from '../lib/errors.ts';
import { checkKeyLength } from '../lib/limits.ts';
import { childElements, childText, type Element } from '../lib/xml.ts';
import { checkWriteConditions } from '../store/objects.ts';
import { type Exchange, NO_CONTENT, type S3Response, type Store, xml } from './exchange.ts';
import { readWriteConditions } from './request-headers.ts';

/** S3's limit for keys in one request. */
const MAX_KEYS = 1000;

/** Responds with 204 whether or not the object existed. */
export async function deleteObject(exchange: Exchange, store: Store): Promise<S3Response> {
  exchange.authorize('s3:DeleteObject');
  const conditions = readWriteConditions((name) => exchange.header(name));
  await store.objects.remove(
    exchange.bucketAtCommit('s3:DeleteObject'),
    [exchange.target.key],
    (_bucket, _key, existing) => {
      if (existing) checkWriteConditions(conditions, existing);
    },
  );
  return NO_CONTENT;
}

/** `POST ?delete`: deletes each key separately; the response reports the result for each. */
export async function deleteObjects(exchange: Exchange, store: Store): Promise<S3Response> {
  const { bucket: name } = exchange.target;
  if (!store.buckets.find(name)) throw new S3Error('NoSuchBucket');
  const document = await exchange.receiveXml('Delete');
  const quiet = childText(document, 'Quiet')?.trim() === 'true';
  const objects = childElements(document, 'Object');
  const keys = objects.map((object) => childText(object, 'Key') ?? '');
  if (keys.length === 0 || keys.length > MAX_KEYS || keys.includes('')) throw new S3Error('MalformedXML');
  objects.forEach(checkObjectElement);

  const errors: { Key: string; Code: string; Message: string }[] = [];
  const permitted = keys.filter((key) => {
    try {
      checkKeyLength(key);
      exchange.authorizeOn(name, 's3:DeleteObject', key);
      return true;
    } catch (error) {
      if (!(error instanceof S3Error)) throw error;
      errors.push({ Key: key, Code: error.code, Message: error.message });
      return false;
    }
  });
  if (permitted.length > 0) {
    await store.objects.remove(
      () => {
        store.identities.checkStillValid(exchange.signer);
        return store.buckets.get(name);
      },
      permitted,
      (_bucket, key) => exchange.authorizeOn(name, 's3:DeleteObject', key),
    );
  }
  const Deleted = quiet ? [] : permitted.map((Key) => ({ Key }));
  return xml('DeleteResult', { Deleted, Error: errors });
}

/** Rejects versions and conditions: ignoring them could delete an object that the client has never seen. */
function checkObjectElement({ children }: Element): void {
  for (const { name, text } of children) {
    if (name === 'Key' || (name === 'VersionId' && ['', 'null'].includes(text.trim()))) continue;
    if (name === 'VersionId') throw new S3Error('NoSuchVersion');
    throw new S3Error('NotImplemented', `Objects cannot be deleted by their ${name} on this server.`);
  }
}
