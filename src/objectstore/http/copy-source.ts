import { S3Error } from '../errors.ts';
import { decodeComponent } from '../signature/uri.ts';

export interface CopySource {
  readonly bucket: string;
  readonly key: string;
}

/** `x-amz-copy-source: [/]bucket/key[?versionId=null]`, encoded or, when that gives nothing, as it is. */
export function readCopySource(header: string): CopySource {
  const [path = '', version] = header.split('?versionId=');
  if (version !== undefined && version !== '' && version !== 'null') throw new S3Error('NoSuchVersion');
  const text = decodeComponent(path) ?? path;
  const bare = text.startsWith('/') ? text.slice(1) : text;
  const slash = bare.indexOf('/');
  if (slash < 1 || slash === bare.length - 1) {
    throw new S3Error('InvalidArgument', 'Copy Source must mention the source bucket and key: sourcebucket/sourcekey.');
  }
  return { bucket: bare.slice(0, slash), key: bare.slice(slash + 1) };
}
