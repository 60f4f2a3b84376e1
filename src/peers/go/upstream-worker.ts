import { hash } from 'node:crypto';
import { fields, isObject, objectField, textField } from '../../lib/fields.ts';
import type { WorkerOrder } from '../peer.ts';

/**
 * A worker as a manager written in Go keeps it. Such a manager knows no member keys and no revisions; what we have to know
 * again stands in annotations, which it keeps as they are.
 */
export interface UpstreamWorker {
  readonly uid: string;
  readonly revision: number;
  /** Of the order that made it, if it still is what that order said; otherwise of what it is by now. */
  readonly digest: string;
}

const PREFIX = 'oscar.grycap/';
const UID = `${PREFIX}federation-uid`;
const REVISION = `${PREFIX}federation-revision`;
const DIGEST = `${PREFIX}federation-digest`;
const CONTENT = `${PREFIX}federation-content`;

/** Of the workers of such a manager, those of a mesh make no buckets (decision 0045). */
const BUCKETLESS = 'mesh';

/**
 * The order as `POST /system/services` of such a manager takes it (docs/go-manager.md#federation-and-delegation). A
 * list of members would make it ask for a refresh token, which has one holder
 * (docs/invoking-async.md#the-refresh-token); without it a worker runs what it is given. The topology is always that
 * of workers without buckets: the files are at the origin, and a second worker there could not make the same bucket again.
 */
export function upstreamBody({ body, uid, revision, digest }: WorkerOrder): string {
  const given: unknown = JSON.parse(body.reveal());
  const document = isObject(given) ? given : {};
  const annotations = isObject(document['annotations']) ? document['annotations'] : {};
  const { members: _, ...federation } = objectField.read(document['federation']) ?? {};
  const worker = { ...document, federation: { ...federation, topology: BUCKETLESS } };
  const marks = { [UID]: uid, [REVISION]: String(revision), [DIGEST]: digest, [CONTENT]: contentDigest(worker) };
  return JSON.stringify({ ...worker, annotations: { ...annotations, ...marks } });
}

/**
 * A worker without buckets as it is to be before it is deleted; undefined when it can be deleted as it is. With a service
 * such a manager deletes the buckets that the definition names, also those that its worker never made (F46): in a store
 * that both clusters share these are the origin's. One of an earlier topology made buckets of its own, which go with it.
 */
export function emptiedBody(document: Record<string, unknown>): string | undefined {
  const { topology } = objectField.read(document['federation']) ?? {};
  const { input, output, mount } = document;
  const names = [input, output].some((each) => Array.isArray(each) && each.length > 0) || Boolean(pathIn(mount));
  if (topology !== BUCKETLESS || !names) return undefined;
  const { mount: _, ...rest } = document;
  return JSON.stringify({ ...rest, input: [], output: [] });
}

const pathIn = (mount: unknown) => objectField.read(mount)?.['path'];

const readAnnotations = fields({
  [UID]: textField('an id', /./),
  [REVISION]: textField('a number', /^\d{1,15}$/),
  [DIGEST]: textField('a digest', /./),
  [CONTENT]: textField('a digest', /./),
});

/** What a service over there is to us; undefined when it is nothing of ours. */
export function upstreamWorker(document: unknown): UpstreamWorker | undefined {
  const annotations = isObject(document) ? readAnnotations(document['annotations']) : undefined;
  if (!annotations || 'problems' in annotations || !isObject(document)) return undefined;
  const { [UID]: uid = '', [REVISION]: revision, [DIGEST]: digest = '', [CONTENT]: content } = annotations.value;
  const present = contentDigest(document);
  return { uid, revision: Number(revision), digest: present === content ? digest : present };
}

/**
 * The part that comes back as it was sent. Defaults, paths, labels and secrets do not: that manager fills them in, writes
 * them otherwise or does not show them.
 */
function contentDigest(document: Record<string, unknown>): string {
  const environment = objectField.read(document['environment']) ?? {};
  const variables = objectField.read(environment['variables']) ?? {};
  const { image, script, cpu, memory, visibility } = document;
  const sorted = Object.entries(variables).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return hash('sha256', JSON.stringify([image, script, cpu, memory, visibility, sorted]), 'hex');
}
