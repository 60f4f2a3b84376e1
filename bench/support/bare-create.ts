import { randomUUID } from 'node:crypto';
import type { ApiConnection } from './api-connection.ts';

/** Of objects, as far as it matters here. */
interface Stored {
  readonly metadata: {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

/** What a service consists of in Kubernetes, to make more of the same. */
export interface Pattern {
  readonly name: string;
  readonly namespace: string;
  readonly configMap: Stored;
  readonly secret: Stored;
  readonly podTemplate: Stored;
}

/** The calls of one {@link bareCreate}; the benchmark checks that a manager makes as many. */
export const CALLS_OF_A_CREATE: Readonly<Record<string, number>> = {
  'GET configmaps': 3,
  'LIST configmaps': 1,
  'POST configmaps': 3,
  'PUT configmaps': 1,
  'DELETE configmaps': 2,
  'GET secrets': 2,
  'POST secrets': 1,
  'POST podtemplates': 1,
};

export async function patternOf(api: ApiConnection, namespace: string, name: string): Promise<Pattern> {
  const get = async (plural: string): Promise<Stored> =>
    JSON.parse(await api.ask('GET', `/api/v1/namespaces/${namespace}/${plural}/${name}`));
  const [configMap, secret, podTemplate] = [await get('configmaps'), await get('secrets'), await get('podtemplates')];
  return { name, namespace, configMap, secret, podTemplate };
}

/** The calls to the API that the create of a service consists of, in their order and with the same objects. */
export async function bareCreate(api: ApiConnection, pattern: Pattern, manager: string, name: string): Promise<void> {
  const uid = randomUUID();
  const own = `/api/v1/namespaces/${manager}/configmaps`;
  const user = `/api/v1/namespaces/${pattern.namespace}`;
  const [held, begun] = [`oscar-name-${name}`, `oscar-journal-${uid}`];
  const note = (called: string, room: string, data: object, resourceVersion?: string) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: called,
      labels: { 'oscar.grycap/room': room },
      annotations: { 'oscar.grycap/key': name },
      resourceVersion,
    },
    data,
  });

  await api.ask('GET', `${own}/config.yaml`);
  await api.ask('POST', own, note(held, 'name', { uid, since: new Date().toISOString(), used: 'false' }));
  await api.ask('GET', `/api/v1/configmaps?labelSelector=oscar_service%3D${name}&limit=500`);
  const entry = stored(await api.ask('POST', own, note(begun, 'journal', { state: JSON.stringify({ uid, name }) })));
  await Promise.all([
    api
      .ask('GET', `${user}/secrets/${name}`)
      .then(() => api.ask('POST', `${user}/secrets`, renamed(pattern, pattern.secret, name))),
    api.ask('GET', `/api/v1/namespaces/${manager}/secrets/oscar-credentials-${uid}`),
  ]);
  const reserved = stored(await api.ask('GET', `${own}/${held}`));
  const since = new Date().toISOString();
  const using = note(held, 'name', { uid, since, used: 'true' }, reserved.metadata.resourceVersion);
  const used = stored(await api.ask('PUT', `${own}/${held}`, using));
  const made = stored(await api.ask('POST', `${user}/configmaps`, renamed(pattern, pattern.configMap, name)));
  await api.ask('POST', `${user}/podtemplates`, renamed(pattern, pattern.podTemplate, name, made));
  await api.ask('DELETE', `${own}/${held}`, inThisVersion(used));
  await api.ask('GET', `${own}/${begun}`);
  await api.ask('DELETE', `${own}/${begun}`, inThisVersion(entry));
}

const stored = (said: string): Stored => JSON.parse(said);

function inThisVersion({ metadata: { uid, resourceVersion } }: Stored): object {
  return { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
}

function renamed(pattern: Pattern, object: Stored, name: string, owner?: Stored): object {
  const { labels, annotations } = object.metadata;
  const ownerReferences = owner && [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid: owner.metadata.uid }];
  const metadata = { name: pattern.name, labels, annotations, ownerReferences };
  return JSON.parse(JSON.stringify({ ...object, metadata }).replaceAll(pattern.name, name));
}
